// What opens over the page. A confirmation names object, number and consequence; its action repeats the verb.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { leaveCheck } from '../router.ts';
import { t } from '../words/words.ts';
import { Field, Form, useAction } from './form.tsx';
import { Button, Failure, Icon } from './parts.tsx';

/** Focus returns to the element that had it, because it is a <dialog>. */
export function Modal({
  title,
  note,
  look = '',
  onClose,
  children,
}: {
  title: string;
  note?: string;
  look?: string;
  onClose: () => void;
  children: (close: () => void) => ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  // Not a layout effect: a menu that asks closes first, and its button is where Escape returns the focus.
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} class={`dialog ${look}`.trim()} aria-labelledby="dialog-title" onClose={onClose}>
      <div class="top">
        <h2 id="dialog-title">{title}</h2>
        {note === undefined ? null : <p class="faint">{note}</p>}
      </div>
      {children(() => element.current?.close())}
    </dialog>
  );
}

interface Input {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  /** what the value means; '' = nothing */
  readonly preview?: (value: string) => string;
}

export interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** the verb of the action */
  readonly action: string;
  readonly danger?: boolean;
  /** text of the other button; default: Cancel */
  readonly keep?: string | undefined;
  /** the user must type this text */
  readonly typed?: string | undefined;
  /** one text field; its value goes to `run` */
  readonly input?: Input | undefined;
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
  const [value, setValue] = useState(input?.value ?? '');
  const { busy, failure, run: begin } = useAction();
  const isMissing = (typed !== undefined && value !== typed) || (input !== undefined && value === '');
  const label = input?.label ?? typed;
  const end = (): void => {
    question.value = null;
  };
  return (
    <Modal title={title} onClose={end}>
      {(close) => (
        <Form look="" onSend={() => begin(() => run(value).then(close))}>
          <div class="body form one">
            <div class="soft">{body}</div>
            {label === undefined ? null : (
              <Field label={label} value={value} onType={setValue}>
                {input === undefined ? null : (
                  <small role="status">{input.preview?.(value) || input.hint}</small>
                )}
              </Field>
            )}
            <Failure text={failure} />
          </div>
          <div class="bottom">
            <Button onClick={close}>{keep ?? t('cancel')}</Button>
            <button
              type="submit"
              class={danger ? 'btn solid-danger' : 'btn main'}
              disabled={busy || isMissing}
            >
              {action}
            </button>
          </div>
        </Form>
      )}
    </Modal>
  );
}

/** Asks before unsaved input is lost: by the page's dialog, and by the browser's where the tab is closed. */
export function useLeaveCheck(isUnsaved: boolean): void {
  // A layout effect: an effect runs after the next frame, and Back may come before it.
  useLayoutEffect(() => {
    if (!isUnsaved) return;
    const onClose = (event: BeforeUnloadEvent): void => event.preventDefault();
    leaveCheck.ask = (leave) => {
      ask({
        title: t('leave_question'),
        body: t('leave_text'),
        action: t('leave'),
        keep: t('stay'),
        danger: true,
        run: async () => leave(),
      });
      return false;
    };
    addEventListener('beforeunload', onClose);
    return () => {
      leaveCheck.ask = () => true;
      removeEventListener('beforeunload', onClose);
    };
  }, [isUnsaved]);
}

/** A menu that a button opens: a popover in the top layer, so that no card cuts it off. It closes by Esc, by
 *  a click elsewhere, and after an action. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const menu = useRef<HTMLDivElement>(null);
  const open = (button: HTMLElement): void => {
    const { current } = menu;
    if (current === null) return;
    current.showPopover();
    // An action closes it; a click elsewhere does by itself.
    current.addEventListener('click', () => current.hidePopover(), { once: true });
    const { top, bottom, right } = button.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = current;
    const fits = bottom + offsetHeight < innerHeight;
    current.style.top = `${fits ? bottom + 4 : Math.max(8, top - offsetHeight - 4)}px`;
    current.style.left = `${Math.max(8, right - offsetWidth)}px`;
    current.querySelector<HTMLElement>('a, button')?.focus();
  };
  return (
    <>
      <div class="menu" popover="auto" ref={menu}>
        {children}
      </div>
      <button
        type="button"
        class="btn plain s square"
        aria-label={label}
        aria-haspopup="true"
        onClick={(event) => open(event.currentTarget)}
      >
        <Icon name="more" small />
      </button>
    </>
  );
}
