// Parts that screens share: icon, button, state, card, strip, error line, copy button, toasts.

import { signal } from '@preact/signals';
import { type ComponentChildren, Fragment } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import type { JobJson, JobSummaryJson } from '../../../contract/api/job.ts';
import { leavingName } from '../../../core/left-behind.ts';
import { CallError } from '../api/call.ts';
import type { Polled } from '../api/poll.ts';
import { may } from '../api/session.ts';
import { number } from '../format.ts';
import { href, hrefQuery, place, setQuery } from '../router.ts';
import { serverText, t, type Word } from '../words/words.ts';

export function Icon({ name, small = false }: { name: string; small?: boolean }) {
  return (
    <svg class={small ? 'icon s' : 'icon'} aria-hidden="true">
      <use href={`#i-${name}`} />
    </svg>
  );
}

/** `look`: classes beside btn. */
export function Button({
  look = '',
  icon,
  label,
  disabled,
  onClick,
  children,
}: {
  look?: string;
  icon?: string;
  /** for one without a text */
  label?: string;
  disabled?: boolean;
  onClick: (event: TargetedEvent) => unknown;
  children?: ComponentChildren;
}) {
  return (
    <button
      type="button"
      class={`btn ${look}`.trim()}
      aria-label={label}
      disabled={disabled}
      onClick={(event) => void onClick(event)}
    >
      {icon === undefined ? null : <Icon name={icon} small={look.split(' ').includes('s')} />}
      {children}
    </button>
  );
}

type TargetedEvent = { readonly currentTarget: HTMLButtonElement };

/** A button that is on or off. */
export function Toggle({
  isOn,
  onClick,
  children,
}: {
  isOn: boolean;
  onClick: () => void;
  children: ComponentChildren;
}) {
  return (
    <button type="button" class={isOn ? 'field on' : 'field'} aria-pressed={isOn} onClick={onClick}>
      {children}
    </button>
  );
}

/** A line above the content. */
export function Strip({
  tone = 'warn',
  icon = 'warn',
  role = 'status',
  end,
  isPre = false,
  children,
}: {
  tone?: 'warn' | 'info' | 'bad';
  icon?: string;
  role?: 'status' | 'alert' | 'note';
  end?: ComponentChildren;
  /** keeps the lines of its text */
  isPre?: boolean;
  children: ComponentChildren;
}) {
  return (
    <div class={`strip ${tone}`} role={role}>
      <Icon name={icon} />
      <span class={isPre ? 'text pre' : 'text'}>{children}</span>
      {end ? <span class="end">{end}</span> : null}
    </div>
  );
}

/** Above a list: what it is without. `missing`: as in the answer */
export function LeftOut({ missing }: { missing: readonly string[] }) {
  const shards = missing.filter((name) => name !== leavingName);
  return (
    <>
      {shards.length > 0 ? <Strip>{t('left_out_shard', { shards: shards.join(', ') })}</Strip> : null}
      {missing.includes(leavingName) ? <Strip tone="info">{t('left_out_moving')}</Strip> : null}
    </>
  );
}

/** A text of fixed width, which scrolls where it does not wrap. */
export const Code = ({ isCut = false, children }: { isCut?: boolean; children: ComponentChildren }) => (
  <pre class={isCut ? 'code' : 'code wrap'} tabIndex={0}>
    {children}
  </pre>
);

export type Colour = 'delayed' | 'ready' | 'running' | 'done' | 'retry' | 'dead' | 'quiet';

export function Pill({
  colour,
  ring = false,
  children,
}: {
  colour: Colour;
  ring?: boolean;
  children: ComponentChildren;
}) {
  return <span class={`pill is-${colour}${ring ? ' ring' : ''}`}>{children}</span>;
}

export const jobColours: Readonly<Record<JobJson['state'], Colour>> = {
  delayed: 'delayed',
  ready: 'ready',
  reserved: 'running',
  done: 'done',
  dead: 'dead',
  cancelled: 'quiet',
  purged: 'quiet',
  expired: 'quiet',
};

/** State of a job; `attempt`: finished attempts; `topicState`: of its topic, when it is known. */
export function JobState({
  state,
  attempt,
  held,
}: {
  state: JobJson['state'];
  attempt: number;
  held?: JobSummaryJson['held'];
}) {
  if (state === 'delayed' && attempt > 0) return <Pill colour="retry">{t('job_retry')}</Pill>;
  if (state === 'ready' && held !== undefined)
    return (
      <Pill colour="retry" ring>
        {t(`job_${held}`)}
      </Pill>
    );
  return <Pill colour={jobColours[state]}>{t(`job_${state}`)}</Pill>;
}

/** `look`: classes of a box for its content. */
export function Card({
  title,
  note,
  end,
  width,
  fill = false,
  look,
  children,
}: {
  title?: ComponentChildren;
  note?: ComponentChildren;
  end?: ComponentChildren;
  width?: 4 | 5 | 6 | 7 | 8 | 12;
  fill?: boolean;
  look?: 'body' | 'body stack' | 'body fields';
  children: ComponentChildren;
}) {
  return (
    <section class={`card${width === undefined ? '' : ` c${width}`}${fill ? ' fill' : ''}`}>
      {title === undefined ? null : (
        <header>
          <div>
            <h2>{title}</h2>
            {note === undefined || note === '' ? null : <span class="note">{['\u2002', note]}</span>}
          </div>
          {end === undefined ? null : <span class="end">{end}</span>}
        </header>
      )}
      {look === undefined ? children : <div class={look}>{children}</div>}
    </section>
  );
}

/** `share`: 0 to 1 */
export const Bar = ({ share, label, colour }: { share: number; label: string; colour: string }) => (
  <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
    <rect class="fill-sunken" width="100" height="6" />
    <rect class={`fill-${colour}`} width={Math.max(0, Math.min(share, 1)) * 100} height="6" />
  </svg>
);

export const Meter = (bar: Parameters<typeof Bar>[0]) => (
  <div>
    <Bar {...bar} />
    <p class="faint num spaced">{bar.label}</p>
  </div>
);

export function Head({
  title,
  sub,
  actions,
  children,
}: {
  title?: ComponentChildren;
  sub?: ComponentChildren;
  actions?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="head">
      <div>
        {children ?? <h1>{title}</h1>}
        {sub === undefined ? null : <p class="sub">{sub}</p>}
      </div>
      {actions === undefined ? null : <div class="actions">{actions}</div>}
    </div>
  );
}

/** What a failed call says, in the page's language. */
export function errorText(error: unknown): string {
  if (!(error instanceof CallError) || error.status === 0) return t('no_reply');
  return serverText(`problem_${error.code}`, error.message, { detail: error.message });
}

/** A failed call above the content, with the text of its code in the page's language. */
export function LoadError({
  error,
  what,
  retry,
}: {
  error: CallError | null;
  what: string;
  retry: () => void;
}) {
  if (error === null) return null;
  const again = (
    <Button look="s" onClick={retry}>
      {t('try_again')}
    </Button>
  );
  return (
    <Strip role="alert" end={again}>
      <b>{t('cannot_load', { what })}</b> {errorText(error)}
    </Strip>
  );
}

/** What a call returned: its error above, and bars in its place until the first reply. */
export function Loaded<T>({
  from: { data, error, refresh },
  what,
  rows = 4,
  children,
}: {
  from: Pick<Polled<T>, 'data' | 'error' | 'refresh'>;
  what: string;
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  return (
    <>
      <LoadError error={error} what={what} retry={refresh} />
      {data === null ? <Waiting rows={rows} error={error} /> : children(data)}
    </>
  );
}

/** Bars of the final size. They appear after 300 ms (css: .waiting). None beside the error that a LoadError
 *  shows. */
export function Waiting({ rows = 4, error = null }: { rows?: number; error?: CallError | null }) {
  if (error !== null) return null;
  return (
    <div class="waiting" role="status" aria-label={t('loading')}>
      {Array.from({ length: rows }, (_, n) => (
        <span key={n} />
      ))}
    </div>
  );
}

/** A rejected action, beside it. `place`: class of its place in a form or card. */
export function Failure({ text, place = '' }: { text: string | null; place?: 'wide' | 'nothing' | '' }) {
  if (text === null) return null;
  return (
    <p class={`${place} wrong`.trim()} role="alert">
      {text}
    </p>
  );
}

/** Items of a page of a list. */
const pageItems = 50;

/** Below a list: shows its next `count` items. `next` null: this is all. */
export function More({ next, count = pageItems }: { next: (() => void) | null; count?: number | undefined }) {
  if (next === null) return null;
  return (
    <div class="more">
      <Button look="s" onClick={next}>
        {t('show_more', { count: number(count) })}
      </Button>
    </div>
  );
}

/** Leads to the form for a new topic or schedule. */
export function NewLink({
  section,
  children,
}: {
  section: 'topics' | 'schedules';
  children: ComponentChildren;
}) {
  if (!may('admin')) return null;
  return (
    <a class="btn main" href={`${href(section, 'new')}?create`}>
      <Icon name="plus" />
      {children}
    </a>
  );
}

export const NewTopicLink = () => <NewLink section="topics">{t('new_topic')}</NewLink>;

/** Properties of a field that is applied on blur or Enter. Without a state of its own each drawing of the
 *  screen, one per poll, would reset the typed text. */
export function useTyped(value: string, onChange: (value: string) => void) {
  const [text, setText] = useState(value);
  // An effect runs after the next frame, and would remove text that was typed before it.
  useLayoutEffect(() => setText(value), [value]);
  return {
    value: text,
    onInput: (event: Event) => setText((event.currentTarget as HTMLInputElement).value),
    onChange: (event: Event) => {
      const trimmed = (event.currentTarget as HTMLInputElement).value.trim();
      setText(trimmed);
      onChange(trimmed);
    },
  };
}

/** A filter that is typed. */
export function TextChip({
  label,
  value,
  placeholder = t('any'),
  onChange,
}: {
  label: string;
  value: string;
  placeholder?: string;
  onChange: (value: string) => void;
}) {
  const typed = useTyped(value, onChange);
  return (
    <label class={value === '' ? 'field' : 'field on'}>
      {label}
      <input class="mono" placeholder={placeholder} autocomplete="off" {...typed} />
    </label>
  );
}

/** A filter of the address that is typed. `clears`: the one that it replaces. */
export const QueryText = ({
  name,
  clears,
  ...chip
}: Pick<Parameters<typeof TextChip>[0], 'label' | 'placeholder'> & { name: string; clears?: string }) => (
  <TextChip
    {...chip}
    value={place.value.query.get(name) ?? ''}
    onChange={(value) => setQuery({ ...(clears === undefined ? {} : { [clears]: '' }), [name]: value })}
  />
);

/** A filter of the address that is chosen. */
export const QueryChoice = ({
  name,
  ...choice
}: Pick<Parameters<typeof Choice<string>>[0], 'label' | 'options'> & { name: string }) => (
  <Choice
    {...choice}
    value={place.value.query.get(name) ?? ''}
    onChoose={(value) => setQuery({ [name]: value })}
  />
);

/** Clears these members of the query. `isShown`: one of them is set. */
export function ClearFilters({
  names,
  isShown,
  look = 'plain s',
}: {
  names: string;
  isShown: boolean;
  look?: string;
}) {
  if (!isShown) return null;
  const clear = () => setQuery(Object.fromEntries(names.split(' ').map((name) => [name, ''])));
  return (
    <Button look={look} onClick={clear}>
      {t('clear_filters')}
    </Button>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="nothing">{children}</p>;
}

export function TopicLink({ topic }: { topic: string }) {
  return <a href={href('topics', topic)}>{topic}</a>;
}

/** A number of jobs; undefined: not read yet. */
export const Count = ({ value }: { value: number | undefined }) => (
  <span class={value ? '' : 'faint'}>{value === undefined ? '–' : number(value)}</span>
);

/** The number of dead letters of a topic, which leads to them. */
export function DeadCount({ topic, value }: { topic: string; value: number | undefined }) {
  if (value === undefined || value === 0) return <Count value={value} />;
  return <a href={hrefQuery(['dead'], { topic })}>{number(value)}</a>;
}

/** Name of a token or session. Without a sign-in it is a fixed one, which is in the page's language. */
export const actorName = (actor: string): string => (actor === 'this machine' ? t('by_machine') : actor);

export function JobLink({ topic, id }: { topic: string; id: string }) {
  return (
    <a class="name mono" href={href('jobs', topic, id)}>
      {id}
    </a>
  );
}

export interface TileFacts {
  readonly name: Word;
  readonly value: string;
  /** small, after the value */
  readonly unit?: string;
  readonly how: ComponentChildren;
  readonly spark?: ComponentChildren;
  readonly to?: string;
  readonly tone?: 'bad' | 'warn' | undefined;
}

export function Tiles({ label, tiles }: { label: string; tiles: readonly TileFacts[] }) {
  return (
    <section class="tiles" aria-label={label}>
      {tiles.map(({ name, value, unit, how, spark, to, tone }) => {
        const inside = (
          <>
            <span class="name">{t(name)}</span>
            <span class="value">
              {value}
              {unit === undefined ? null : <small>{unit}</small>}
            </span>
            <span class="how">
              <span>{how}</span>
              {spark}
            </span>
          </>
        );
        const look = `tile${tone === undefined ? '' : ` ${tone}`}`;
        return to === undefined ? (
          <div class={look} key={name}>
            {inside}
          </div>
        ) : (
          <a class={look} href={to} key={name}>
            {inside}
          </a>
        );
      })}
    </section>
  );
}

/** Name, value, and whether the value is a code; false: no such fact. */
export type Fact = readonly [string, ComponentChildren, boolean?] | false;

export function Facts({ rows }: { rows: readonly Fact[] }) {
  return (
    <dl class="facts">
      {rows.map((row) => {
        if (row === false) return null;
        const [name, value, mono = false] = row;
        return (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd class={mono ? 'mono' : 'num'}>{value}</dd>
          </Fragment>
        );
      })}
    </dl>
  );
}

/** A choice; `options`: values with their texts. */
export function Select<V extends string>({
  label,
  look,
  value,
  options,
  onChoose,
  children,
}: {
  label: ComponentChildren;
  look?: string;
  value: V;
  options: readonly (readonly [V, string])[];
  onChoose: (value: V) => void;
  children?: ComponentChildren;
}) {
  return (
    <label class={look}>
      {label}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value as V)}>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
      {children}
    </label>
  );
}

/** A filter that is chosen. */
export const Choice = <V extends string>(select: Omit<Parameters<typeof Select<V>>[0], 'look'>) => (
  <Select look={select.value === '' ? 'field' : 'field on'} {...select} />
);

// Toasts

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly link: { readonly href: string; readonly text: string } | null;
}

const toasts = signal<readonly Toast[]>([]);
let nextToast = 1;

/** Stays 6 s; never the only place of an error. */
export function toast(text: string, link: Toast['link'] = null): void {
  const id = nextToast++;
  toasts.value = [...toasts.value.slice(-2), { id, text, link }];
  setTimeout(() => {
    toasts.value = toasts.value.filter((one) => one.id !== id);
  }, 6_000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, link }) => (
        <div class="toast" key={id}>
          {text}
          {link === null ? null : <a href={link.href}>{link.text}</a>}
        </div>
      ))}
    </div>
  );
}

/** The clipboard exists on https and localhost only; elsewhere the text is selected. */
export async function copyText(text: string, from: Element | null): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(t('copied'));
  } catch {
    if (from !== null) getSelection()?.selectAllChildren(from);
    toast(t('copy_failed'));
  }
}

export function CopyButton({
  text,
  label,
  icon = 'copy',
  children,
}: {
  text: string;
  label: string;
  icon?: 'copy' | 'link';
  children?: ComponentChildren;
}) {
  return (
    <Button
      look={children === undefined ? 'plain s square' : ''}
      icon={icon}
      label={label}
      onClick={(event) => copyText(text, event.currentTarget.closest('.card, .title'))}
    >
      {children}
    </Button>
  );
}
