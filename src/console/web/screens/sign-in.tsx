// Sign-in: a link from `dq console`, or an access token. Shows neither host nor version.

import { useState } from 'preact/hooks';
import type { CallError } from '../api/call.ts';
import { signIn } from '../api/session.ts';
import { Form } from '../parts/form.tsx';
import { Code, errorText, Failure } from '../parts/parts.tsx';
import { t } from '../words/words.ts';

const failureOf = (error: CallError): string =>
  error.status === 0 ? t('no_reply') : t('sign_in_refused', { detail: errorText(error) });

/** `ended`: there was a session on this page. */
export function SignIn({ error, ended }: { error: CallError | null; ended: boolean }) {
  const [token, setToken] = useState('');
  return (
    <div class="door">
      <main id="main">
        <div class="brand">
          <svg aria-hidden="true">
            <use href="#mark" />
          </svg>
          dq
        </div>
        <section class="card">
          <Form look="form one" onSend={() => signIn({ token: token.trim() })}>
            <h1>{t('sign_in')}</h1>
            {ended ? <p class="soft">{t('signed_out_note')}</p> : null}
            <p class="soft">{t('sign_in_link_hint')}</p>
            <Code isCut>dq console</Code>
            <p class="soft">{t('sign_in_token_hint')}</p>
            <label>
              {t('sign_in_token')}
              <input
                class="mono"
                type="password"
                autocomplete="off"
                value={token}
                onInput={(event) => setToken(event.currentTarget.value)}
              />
            </label>
            <Failure text={error === null ? null : failureOf(error)} />
            <button type="submit" class="btn main" disabled={token.trim() === ''}>
              {t('sign_in')}
            </button>
          </Form>
        </section>
      </main>
    </div>
  );
}
