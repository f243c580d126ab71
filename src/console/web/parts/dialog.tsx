// Confirmations: a dialog names object, number and consequence; its action repeats the verb. Focus returns to
// the element that opened it, because it is a <dialog>.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { t } from '../words/words.ts';
import { Button, errorText, Failure } from './parts.tsx';

export interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** the verb of the action */
  readonly action: string;
  readonly danger?: boolean;
  /** text of the other button; default: Cancel */
  readonly keep?: string;
  /** the user must type this text */
  readonly typed?: string;
  /** one text field; its value goes to `run` */
  readonly input?: {
    readonly label: string;
    readonly hint: string;
    readonly value: string;
    /** what the value means; '' = nothing */
    readonly preview?: (value: string) => string;
  };
  /** Rejects with CallError: the dialog stays and shows it. */
  readonly run: (value: string) => Promise<void>;
}

const question = signal<Question | null>(null);

export function ask(next: Question): void {
  question.value = next;
}

export function DialogHost() {
  const open = question.value;
  return open === null ? null : <Dialog key={open.title} {...open} />;
}

function Dialog({ title, body, action, danger = false, keep, typed, input, run }: Question) {
  const element = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(input?.value ?? '');
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  // Not a layout effect: a menu that asks closes first, and its button is where Escape returns the focus.
  useEffect(() => element.current?.showModal(), []);
  const close = (): void => element.current?.close();
  const act = async (): Promise<void> => {
    setBusy(true);
    try {
      await run(value);
      close();
    } catch (problem) {
      setError(errorText(problem));
      setBusy(false);
    }
  };
  return (
    <dialog
      ref={element}
      class="dialog modal"
      aria-labelledby="dialog-title"
      onClose={() => {
        question.value = null;
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
      >
        <div class="top">
          <h2 id="dialog-title">{title}</h2>
        </div>
        <div class="body form one">
          <div class="soft">{body}</div>
          {typed === undefined && input === undefined ? null : (
            <label>
              {input?.label ?? typed}
              <input
                class="mono"
                value={value}
                autocomplete="off"
                onInput={(event) => setValue(event.currentTarget.value)}
              />
              {input === undefined ? null : (
                <small role="status">{input.preview?.(value) || input.hint}</small>
              )}
            </label>
          )}
          <Failure text={error} />
        </div>
        <div class="bottom">
          <Button onClick={close}>{keep ?? t('cancel')}</Button>
          <button
            type="submit"
            class={danger ? 'btn solid-danger' : 'btn main'}
            disabled={
              busy || (typed !== undefined && value !== typed) || (input !== undefined && value === '')
            }
          >
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
