// Configuration: the options in force with their origins; what a reload would change. A browser edits none.

import { usePoll } from '../api/poll.ts';
import { Card, CopyButton, Empty, Head, Icon, LoadError, Waiting } from '../parts/parts.tsx';
import { place, setQuery } from '../router.ts';
import { t, wordOf } from '../words/words.ts';

interface Option {
  readonly name: string;
  readonly value: string;
  readonly origin: string;
  readonly source: 'flag' | 'environment' | 'file' | 'default';
  readonly defaultValue: string;
  readonly needsRestart: boolean;
  readonly next: string | null;
  readonly help: string;
}

interface Config {
  readonly file: string | null;
  readonly problem: string | null;
  readonly items: readonly Option[];
}

export function Configuration() {
  const poll = usePoll<Config>('/v1/config', 10_000);
  const { data } = poll;
  const { query } = place.value;
  const text = query.get('q') ?? '';
  const [changed, restart] = [query.has('changed'), query.has('restart')];
  const shown = (data?.items ?? []).filter(
    ({ name, value, help, source, next, needsRestart }) =>
      (!changed || source !== 'default' || next !== null) &&
      (!restart || needsRestart) &&
      [name, value, help].some((part) => part.toLowerCase().includes(text.toLowerCase())),
  );
  const pending = (data?.items ?? []).filter(({ next }) => next !== null);
  return (
    <>
      <Head
        title={t('configuration')}
        sub={data === null ? undefined : `${data.file ?? t('no_config_file')} · ${t('config_note')}`}
        {...(data === null
          ? {}
          : {
              actions: (
                <CopyButton text={yamlOf(data.items)} label={t('copy_yaml')}>
                  {t('copy_yaml')}
                </CopyButton>
              ),
            })}
      />
      <LoadError error={poll.error} what={t('configuration')} retry={poll.refresh} />
      {data === null || data.problem === null ? null : (
        <div class="strip warn" role="alert">
          <Icon name="warn" />
          <span class="text">
            <b>{t('config_problem')}</b> {data.problem}
          </span>
        </div>
      )}
      {pending.length === 0 ? null : (
        <div class="strip info" role="status">
          <Icon name="redo" />
          <span class="text">{t('config_pending', { count: pending.length })}</span>
        </div>
      )}
      <div class="fields">
        <label class={text === '' ? 'field' : 'field on'}>
          {t('search')}
          <input
            value={text}
            autocomplete="off"
            placeholder={t('search_options')}
            onInput={(event) => setQuery({ q: event.currentTarget.value })}
          />
        </label>
        <Toggle name="changed" on={changed} label={t('changed_only')} />
        <Toggle name="restart" on={restart} label={t('needs_restart')} />
      </div>
      <Card>
        {data === null ? (
          <Waiting rows={8} error={poll.error} />
        ) : shown.length === 0 ? (
          <Empty>
            {t('no_option')}{' '}
            <button type="button" class="btn s" onClick={() => setQuery({ q: '', changed: '', restart: '' })}>
              {t('clear_filters')}
            </button>
          </Empty>
        ) : (
          <Options options={shown} />
        )}
      </Card>
    </>
  );
}

function Toggle({ name, on, label }: { name: string; on: boolean; label: string }) {
  return (
    <button
      type="button"
      class={on ? 'field on' : 'field'}
      aria-pressed={on}
      onClick={() => setQuery({ [name]: on ? '' : '1' })}
    >
      {label}
    </button>
  );
}

const originOf = ({ source, origin }: Option): string =>
  source === 'default' ? t('origin_default') : `${wordOf(`origin_${source}`, source)} ${origin}`;

function Value({ option: { value, next, source } }: { option: Option }) {
  return (
    <>
      <span class={source === 'default' ? 'mono' : 'mono strong'}>{value === '' ? '–' : value}</span>
      {next === null ? null : (
        <span class="tag warn">{t('after_reload', { value: next === '' ? '–' : next })}</span>
      )}
    </>
  );
}

function Options({ options }: { options: readonly Option[] }) {
  return (
    <>
      <table class="desk options">
        <thead>
          <tr>
            <th>{t('option')}</th>
            <th>{t('value')}</th>
            <th>{t('origin')}</th>
            <th>{t('default_value')}</th>
            <th>{t('needs_restart')}</th>
          </tr>
        </thead>
        <tbody>
          {options.map((option) => (
            <tr key={option.name}>
              <td>
                <span class="two">
                  <span class="mono">{option.name}</span>
                  <small lang="en">{option.help}</small>
                </span>
              </td>
              <td class="text">
                <Value option={option} />
              </td>
              <td class="soft text">{originOf(option)}</td>
              <td class="mono faint text">{option.defaultValue === '' ? '–' : option.defaultValue}</td>
              <td class="soft">{option.needsRestart ? t('yes') : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="cards">
        {options.map((option) => (
          <li key={option.name}>
            <div class="row">
              <span class="mono grow">{option.name}</span>
              {option.needsRestart ? <span class="tag">{t('needs_restart')}</span> : null}
            </div>
            <p class="text">
              <Value option={option} />
            </p>
            <p class="faint text">
              {originOf(option)} · <span lang="en">{option.help}</span>
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Two options exist as flags only. */
const isWritten = ({ name, source }: Option): boolean =>
  source !== 'default' && name !== 'noAuth' && name !== 'noDeliveries';

/** The options that differ from their defaults, as dq.yaml; masked ones only as a comment. */
function yamlOf(items: readonly Option[]): string {
  const lines: string[] = [];
  let group = '';
  for (const { name, value } of items.filter(isWritten)) {
    const [first = '', second] = name.split('.');
    if (second !== undefined && first !== group) lines.push(`${first}:`);
    group = second === undefined ? '' : first;
    const indent = second === undefined ? '' : '  ';
    const isPlain = /^(?:\[.*\]|[A-Za-z0-9_./+-][A-Za-z0-9_./:@+ -]*)$/.test(value) && !/: | #/.test(value);
    lines.push(
      value === '********'
        ? `${indent}# ${second ?? first}: ${t('masked')}`
        : `${indent}${second ?? first}: ${isPlain ? value : JSON.stringify(value)}`,
    );
  }
  return `${lines.join('\n')}\n`;
}
