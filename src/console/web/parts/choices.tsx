// The choices of this browser: theme, language, single keys. They are kept in its storage; where storage is
// forbidden they last as long as the page. The table of keys, opened by ? or from the navigation.

import { signal } from '@preact/signals';
import { Fragment } from 'preact';
import { keysOn, keysShown, screensByKey, setKeysOn } from '../keys.ts';
import { remember } from '../remembered.ts';
import { choose, language, t, type Word } from '../words/words.ts';
import { Modal } from './dialog.tsx';
import { Button, Icon } from './parts.tsx';

const theme = signal(document.documentElement.dataset['theme'] ?? 'system');

function setTheme(next: string): void {
  theme.value = next;
  if (next === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = next;
  remember('dq-theme', next);
}

export function LanguageButton({ place = '' }: { place?: string }) {
  return (
    <button
      type="button"
      class={`btn plain s ${place}`.trim()}
      lang={language.value === 'zh' ? 'en' : 'zh'}
      onClick={() => void choose(language.value === 'zh' ? 'en' : 'zh')}
    >
      {t('other_language')}
    </button>
  );
}

export function ThemeButton() {
  const { value } = theme;
  return (
    <Button
      look="plain s square"
      label={t('theme', { theme: t(`theme_${value}` as Word) })}
      onClick={() => setTheme(value === 'system' ? 'light' : value === 'light' ? 'dark' : 'system')}
    >
      <Icon name={value === 'light' ? 'sun' : 'moon'} />
    </Button>
  );
}

export function KeysChoice() {
  return (
    <label class="switch">
      <input
        type="checkbox"
        checked={keysOn.value}
        onChange={(event) => setKeysOn(event.currentTarget.checked)}
      />
      {t('single_keys')}
    </label>
  );
}

const table: readonly (readonly [keys: readonly string[], Word])[] = [
  [['/'], 'search'],
  ...Object.entries(screensByKey).map(([key, { title }]) => [['g', key], title] as const),
  [['j', 'k'], 'key_row'],
  [['x'], 'key_select'],
  [['Enter'], 'key_open'],
  [['r'], 'key_refresh'],
  [['Shift+R'], 'key_requeue'],
  [['c'], 'copy_id'],
  [['?'], 'key_help'],
  [['Esc'], 'key_escape'],
];

export function KeysDialog() {
  const end = (): void => {
    keysShown.value = false;
  };
  return (
    <Modal title={t('keys')} onClose={end}>
      {(close) => (
        <>
          <div class="body">
            <dl class="facts keys">
              {table.map(([keys, word]) => (
                <Fragment key={word}>
                  <dt>
                    {keys.map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{t(word)}</dd>
                </Fragment>
              ))}
            </dl>
          </div>
          <div class="bottom">
            <KeysChoice />
            <Button onClick={close}>{t('close')}</Button>
          </div>
        </>
      )}
    </Modal>
  );
}
