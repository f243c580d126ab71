// A secret that dq shows once: its text, a button that copies it, and the warning.

import { t } from '../words/words.ts';
import { Code, CopyButton } from './parts.tsx';

export function SecretOnce({ text }: { text: string }) {
  return (
    <div role="status">
      <div class="title">
        <Code isCut>{text}</Code>
        <CopyButton text={text} label={t('copy')} />
      </div>
      <p>
        <b>{t('secret_once')}</b>
      </p>
    </div>
  );
}
