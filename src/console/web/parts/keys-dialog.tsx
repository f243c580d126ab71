// The table of keys, opened by ? or from the navigation.

import { Fragment } from 'preact';
import { keysShown, screensByKey } from '../keys.ts';
import { t, type Word } from '../words/words.ts';
import { KeysChoice } from './choices.tsx';
import { Modal } from './dialog.tsx';
import { Button } from './parts.tsx';

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
