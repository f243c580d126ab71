// Parts of forms: the form, its fields, a call with its failure, and what dq says about a draft.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { mistakeIn } from '../../../core/json-span.ts';
import { CallError, call } from '../api/call.ts';
import { t } from '../words/words.ts';
import { errorText } from './parts.tsx';

/** Enter in a field sends it, and nothing but `onSend` happens. */
export function Form({
  look = 'body form',
  onSend,
  children,
}: {
  look?: string;
  onSend: () => unknown;
  children: ComponentChildren;
}) {
  return (
    <form
      class={look}
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      {children}
    </form>
  );
}

interface FieldProps {
  readonly label: ComponentChildren;
  readonly value: string;
  readonly onType: (value: string) => void;
  readonly isWide?: boolean;
  /** dq rejects the value; shown below the field */
  readonly wrong?: string | undefined;
  readonly placeholder?: string;
  /** rows of a text area; absent: one line */
  readonly rows?: number;
  readonly type?: 'text' | 'password';
  readonly list?: string | undefined;
  readonly children?: ComponentChildren;
}

/** A field of codes: id, URL, JSON. */
export function Field({ label, isWide = false, wrong, children, ...input }: FieldProps) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: Input is the control
    <label class={isWide ? 'wide' : undefined}>
      {label}
      <Input {...input} isWrong={wrong !== undefined} />
      {children}
      <Wrong text={wrong} />
    </label>
  );
}

/** The input alone; `label`: for one that has no label around it. */
export function Input({
  label,
  value,
  onType,
  onFocus,
  isWrong = false,
  rows,
  type = 'text',
  ...more
}: Omit<FieldProps, 'label' | 'isWide' | 'wrong' | 'children'> & {
  label?: string;
  onFocus?: () => void;
  isWrong?: boolean;
}) {
  const all = {
    ...more,
    'aria-label': label,
    value,
    onFocus,
    spellcheck: false,
    class: isWrong ? 'mono bad' : 'mono',
    onInput: (event: Event) => onType((event.currentTarget as HTMLInputElement).value),
  };
  if (rows !== undefined) return <textarea {...all} rows={rows} />;
  // The types allow no list beside a type that is not known to be a text.
  const autocomplete = type === 'password' ? 'new-password' : 'off';
  return <input {...all} type={type as 'text'} autocomplete={autocomplete} />;
}

export function Wrong({ text }: { text: string | undefined }) {
  return text === undefined ? null : (
    <small class="wrong" role="alert">
      {text}
    </small>
  );
}

export const requiredLabel = (label: string): string => t('required_label', { label });

/** Beside a disabled button: the fields that it waits for. False: this one is filled. */
export function Missing({ fields }: { fields: readonly (string | false)[] }) {
  const names = fields.filter((name) => name !== false);
  if (names.length === 0) return null;
  return <span class="faint">{t('still_missing', { names: names.join(', ') })}</span>;
}

/** A body that is typed. `mistake`: number of the first character that is no JSON, from 1; null: no mistake.
 *  A text area has line feeds alone: a body whose lines all end with CR LF keeps them, and one that mixes its
 *  line ends says that typing changes them. */
export function BodyField({
  mistake,
  children,
  wrong,
  value,
  onType,
  ...input
}: Omit<FieldProps, 'label' | 'isWide'> & { mistake: number | null }) {
  const isCrLf = value.includes('\r\n');
  const isMixed = useMemo(() => /\r(?!\n)/.test(value) || (isCrLf && /(?<!\r)\n/.test(value)), [value]);
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: Input is the control
    <label class="wide">
      {t('body')}
      <Input
        {...input}
        // The area would get its text again, and lose the place of the cursor, if it differed from this.
        value={value.replace(/\r\n?/g, '\n')}
        onType={(text) => onType(isCrLf && !isMixed ? text.replaceAll('\n', '\r\n') : text)}
        isWrong={mistake !== null || wrong !== undefined}
      />
      {isMixed ? <small role="status">{t('mixed_line_ends')}</small> : null}
      {mistake === null ? (
        children
      ) : (
        <small class="wrong" role="status">
          {t('invalid_json_at', { n: mistake })}
        </small>
      )}
      <Wrong text={wrong} />
    </label>
  );
}

/** Number of the first wrong character, from 1; null: the text is JSON. */
export function jsonMistake(text: string): number | null {
  const encoded = new TextEncoder().encode(text);
  const at = mistakeIn(encoded);
  return at === null ? null : [...new TextDecoder().decode(encoded.subarray(0, at))].length + 1;
}

/** A check box, or with `group` one of several, before its text. */
export function Check({
  group,
  isOn,
  look,
  onChange,
  children,
}: {
  group?: string;
  isOn: boolean;
  look?: string;
  onChange: () => void;
  children: ComponentChildren;
}) {
  return (
    <label class={look}>
      <input
        type={group === undefined ? 'checkbox' : 'radio'}
        name={group}
        checked={isOn}
        onChange={onChange}
      />{' '}
      {children}
    </label>
  );
}

/** A call that a button starts: whether it runs, and the text of its failure. */
export function useAction(textOf: (error: unknown) => string = errorText) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const run = async (act: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      await act();
    } catch (error) {
      setFailure(textOf(error));
    }
    setBusy(false);
  };
  return { busy, failure, run };
}

const typingMs = 400;

/** What dq says about a draft, asked after the last key. `draft` null: nothing is asked. Without an answer a
 *  form works as before: dq checks the fields when they are saved. `keeps`: the last answer stays while the
 *  next one is awaited. */
export function usePreview<T>(path: string, draft: object | null, keeps = false) {
  const [answer, setAnswer] = useState<{ data: T | null; error: CallError | null }>(nothing);
  const text = draft === null ? null : JSON.stringify(draft);
  useEffect(() => {
    if (!keeps) setAnswer(nothing);
    if (text === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const options = { text, contentType: 'application/json', signal: abort.signal };
      call<T>('POST', path, options).then(
        (data) => setAnswer({ data, error: null }),
        (error: unknown) => {
          if (!keeps && error instanceof CallError) setAnswer({ data: null, error });
        },
      );
    }, typingMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [path, text]);
  return answer;
}

const nothing = { data: null, error: null };

/** What the fields of a dialog hold: they are drawn apart from the dialog that sends it. */
export interface Draft<T> {
  readonly value: T;
  readonly set: (more: Partial<T>) => void;
}

export function draftOf<T extends object>(first: T): Draft<T> {
  const draft = signal(first);
  return {
    get value() {
      return draft.value;
    },
    set: (more) => {
      draft.value = { ...draft.value, ...more };
    },
  };
}
