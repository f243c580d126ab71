// The table of keys, opened by ? or from the navigation.

import { useEffect, useRef } from 'preact/hooks';
import { keysShown } from '../keys.ts';
import { t, type Word } from '../words/words.ts';
import { KeysChoice } from './choices.tsx';
import { Button } from './parts.tsx';

const table: readonly (readonly [keys: readonly string[], Word])[] = [
  [['/'], 'key_find'],
  [['g', 'o'], 'overview'],
  [['g', 't'], 'topics'],
  [['g', 'j'], 'jobs'],
  [['g', 'd'], 'dead_letters'],
  [['g', 'p'], 'push_job'],
  [['g', 's'], 'processes'],
  [['g', 'a'], 'access'],
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
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog
      ref={element}
      class="dialog modal"
      aria-labelledby="keys-title"
      onClose={() => {
        keysShown.value = false;
      }}
    >
      <div class="top">
        <h2 id="keys-title">{t('keys')}</h2>
      </div>
      <div class="body">
        <dl class="facts keys">
          {table.map(([keys, word]) => (
            <>
              <dt>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{t(word)}</dd>
            </>
          ))}
        </dl>
      </div>
      <div class="bottom">
        <KeysChoice />
        <Button onClick={() => element.current?.close()}>{t('close')}</Button>
      </div>
    </dialog>
  );
}
