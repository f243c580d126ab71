// Shell: navigation, top bar, the screen of the address, keys, dialog and toasts. Shows the sign-in without a
// session.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { build, signedOut } from './api/call.ts';
import { usePoll } from './api/poll.ts';
import { type Me, may, session, signOut, start } from './api/session.ts';
import type { Summary } from './api/types.ts';
import { clock, duration, shortNumber, useSecond } from './format.ts';
import { bindKeys } from './keys.ts';
import { DialogHost } from './parts/dialog.tsx';
import { Head, Icon, Toasts } from './parts/parts.tsx';
import { go, href, hrefQuery, type Place, place } from './router.ts';
import { Access } from './screens/access.tsx';
import { DeadLetters } from './screens/dead.tsx';
import { Job } from './screens/job.tsx';
import { Jobs } from './screens/jobs.tsx';
import { Overview } from './screens/overview.tsx';
import { Processes } from './screens/processes.tsx';
import { Push } from './screens/push.tsx';
import { SignIn } from './screens/sign-in.tsx';
import { TopicScreen } from './screens/topic.tsx';
import { NewTopic } from './screens/topic-settings.tsx';
import { Topics } from './screens/topics.tsx';
import { choose, language, t, type Word } from './words/words.ts';

/** Of the overview and the navigation: one poll for both. */
export const summary = signal<Summary | null>(null);
/** epoch ms by the browser's clock */
const summaryAt = signal<number | null>(null);
const firstBuild = signal<string | null>(null);

export function Shell() {
  const { value } = session;
  useEffect(() => bindKeys(), []);
  // While no token exists a session that has ended begins again without a sign-in.
  useEffect(() => {
    if (signedOut.value) void start();
  }, [signedOut.value]);
  if (value.kind === 'starting') return null;
  if (value.kind === 'signed_out') return <SignIn error={value.error} ended={signedOut.value} />;
  if (signedOut.value) return <SignIn error={null} ended />;
  return <Signed me={value.me} />;
}

interface Item {
  readonly word: Word;
  readonly icon: string;
  readonly path: readonly string[];
  readonly count?: number;
  readonly bad?: boolean;
}

function Signed({ me }: { me: Me }) {
  const poll = usePoll<Summary>('/v1/summary', 5_000);
  useEffect(() => {
    summary.value = poll.data;
    summaryAt.value = poll.at;
  }, [poll.data, poll.at]);
  if (firstBuild.value === null && build.value !== null) firstBuild.value = build.value;
  const isOld = firstBuild.value !== null && build.value !== firstBuild.value;
  const { data } = poll;
  const topicCount =
    data === null ? undefined : data.topics.active + data.topics.paused + data.topics.offline;
  const items: readonly Item[] = [
    { word: 'overview', icon: 'overview', path: [] },
    { word: 'topics', icon: 'topics', path: ['topics'], ...(topicCount ? { count: topicCount } : {}) },
    { word: 'jobs', icon: 'jobs', path: ['jobs'] },
    {
      word: 'dead_letters',
      icon: 'dead',
      path: ['dead'],
      bad: true,
      ...(data !== null && data.states.dead > 0 ? { count: data.states.dead } : {}),
    },
    ...(may('push') ? [{ word: 'push_job', icon: 'push', path: ['push'] } as const] : []),
  ];
  const system: readonly Item[] = [
    { word: 'processes', icon: 'process', path: ['processes'] },
    ...(may('admin') ? [{ word: 'access', icon: 'tokens', path: ['access'] } as const] : []),
  ];
  return (
    <>
      <a class="skip" href="#main">
        {t('skip')}
      </a>
      <div class="app">
        <nav class="nav" aria-label={t('main_navigation')}>
          <div class="brand">
            <svg aria-hidden="true">
              <use href="#mark" />
            </svg>
            dq
            {me.label === '' ? null : <span class={`env ${me.color}`}>{me.label}</span>}
          </div>
          <NavList items={items} />
          <div>
            <h3>{t('system')}</h3>
            <NavList items={system} />
          </div>
          <div class="foot">
            dq {me.version} · {me.host}
            <br />
            {t(me.store === 'redis' ? 'redis_store' : 'embedded_store')} · {me.timezone}
          </div>
        </nav>
        <div class="page">
          <TopBar me={me} at={poll.at} failed={poll.error !== null} />
          <main id="main" tabIndex={-1}>
            {isOld ? <NewVersion /> : null}
            {me.tokensExist || !may('admin') ? null : <NoTokens />}
            <Screen at={place.value} />
          </main>
        </div>
      </div>
      <nav class="tabbar" aria-label={t('main_navigation')}>
        {items.slice(0, 4).map((item) => (
          <TabLink key={item.word} {...item} />
        ))}
        <TabLink word="processes" icon="more" path={['processes']} />
      </nav>
      <Toasts />
      <DialogHost />
    </>
  );
}

function isCurrent(path: readonly string[]): boolean {
  return (place.value.path[0] ?? '') === (path[0] ?? '');
}

function NavList({ items }: { items: readonly Item[] }) {
  return (
    <ul>
      {items.map(({ word, icon, path, count, bad = false }) => (
        <li key={word}>
          <a href={href(...path)} {...(isCurrent(path) ? { 'aria-current': 'page' as const } : {})}>
            <Icon name={icon} />
            {t(word)}
            {count === undefined ? null : (
              <span class={bad ? 'count bad' : 'count'}>{shortNumber(count)}</span>
            )}
          </a>
        </li>
      ))}
    </ul>
  );
}

function TabLink({ word, icon, path, count }: Item) {
  return (
    <a href={href(...path)} {...(isCurrent(path) ? { 'aria-current': 'page' as const } : {})}>
      <Icon name={icon} />
      {t(word === 'dead_letters' ? 'dead_short' : icon === 'more' ? 'more' : word)}
      {word === 'dead_letters' && count !== undefined ? (
        <span class="count">{shortNumber(count)}</span>
      ) : null}
    </a>
  );
}

function TopBar({ me, at, failed }: { me: Me; at: number | null; failed: boolean }) {
  useSecond();
  return (
    <header class="bar">
      <Crumbs at={place.value} />
      <search class="find">
        <form
          class="plain"
          onSubmit={(event) => {
            event.preventDefault();
            const field = event.currentTarget.querySelector('input');
            const text = field?.value.trim() ?? '';
            if (text !== '') go(hrefQuery(['jobs'], { id: text }));
          }}
        >
          <Icon name="search" />
          <label class="sr" for="find">
            {t('find_placeholder')}
          </label>
          <input id="find" placeholder={t('find_placeholder')} autocomplete="off" />
          <kbd>/</kbd>
        </form>
      </search>
      {at === null ? null : (
        <span class={failed ? 'live off' : 'live'}>
          {failed ? t('not_live', { time: clock(at) }) : liveText(Date.now() - at)}
        </span>
      )}
      <button
        type="button"
        class="btn plain s desk"
        lang={language.value === 'zh' ? 'en' : 'zh'}
        onClick={() => void choose(language.value === 'zh' ? 'en' : 'zh')}
      >
        {t('other_language')}
      </button>
      <ThemeButton />
      <button
        type="button"
        class="me"
        title={`${me.name} · ${me.scopes.join(' ')}`}
        onClick={() => void signOut()}
      >
        <span class="sr">{`${t('sign_out')}: ${me.name}`}</span>
        <span aria-hidden="true">{initials(me.name)}</span>
      </button>
    </header>
  );
}

function liveText(ms: number): string {
  return ms < 1_000 ? t('live_now') : t('live', { time: duration(Math.floor(ms / 1_000) * 1_000) });
}

/** "li.wei" → "LW" */
function initials(name: string): string {
  const parts = name.split(/[^\p{L}\p{N}]+/u).filter((part) => part !== '');
  return parts
    .slice(0, 2)
    .map((part) => [...part][0]?.toUpperCase() ?? '')
    .join('');
}

const theme = signal(document.documentElement.dataset['theme'] ?? 'system');

function ThemeButton() {
  const { value } = theme;
  const next = value === 'system' ? 'light' : value === 'light' ? 'dark' : 'system';
  return (
    <button
      type="button"
      class="btn plain s square"
      aria-label={t('theme', { theme: t(`theme_${value}` as Word) })}
      onClick={() => {
        theme.value = next;
        if (next === 'system') delete document.documentElement.dataset['theme'];
        else document.documentElement.dataset['theme'] = next;
        try {
          localStorage.setItem('dq-theme', next);
        } catch {
          // Storage is forbidden: the choice lasts as long as the page.
        }
      }}
    >
      <Icon name={value === 'light' ? 'sun' : 'moon'} />
    </button>
  );
}

const titles: Readonly<Record<string, Word>> = {
  '': 'overview',
  topics: 'topics',
  jobs: 'jobs',
  dead: 'dead_letters',
  push: 'push_job',
  processes: 'processes',
  access: 'access',
};

function Crumbs({ at: { path } }: { at: Place }) {
  const [section = '', ...rest] = path;
  const word = titles[section];
  const title = word === undefined ? t('page_not_found') : t(word);
  useEffect(() => {
    document.title = `${[...rest].reverse().concat(title).join(' · ')} · dq`;
  });
  if (rest.length === 0)
    return (
      <div class="crumbs">
        <b>{title}</b>
      </div>
    );
  return (
    <div class="crumbs">
      <a class="desk" href={href(section)}>
        {title}
      </a>
      {section === 'jobs' && rest.length > 1 ? (
        <>
          <span class="desk">/</span>
          <a class="desk" href={href('topics', rest[0] ?? '')}>
            {rest[0]}
          </a>
        </>
      ) : null}
      <span class="desk">/</span>
      <b>{section === 'jobs' ? rest.at(-1) : rest[0]}</b>
    </div>
  );
}

function Screen({ at: { path } }: { at: Place }) {
  const [section = '', first, second] = path;
  switch (section) {
    case '':
      return <Overview />;
    case 'topics':
      if (first === undefined) return <Topics />;
      if (first === 'new' && place.value.query.has('create')) return <NewTopic />;
      return <TopicScreen key={first} name={first} tab={second ?? 'overview'} />;
    case 'jobs':
      if (first !== undefined && second !== undefined)
        return <Job key={`${first} ${second}`} topic={first} id={second} />;
      return <Jobs />;
    case 'dead':
      return <DeadLetters />;
    case 'push':
      return <Push />;
    case 'processes':
      return <Processes />;
    case 'access':
      return <Access />;
    default:
      return <Head title={t('page_not_found')} sub={t('page_not_found_text')} />;
  }
}

function NewVersion() {
  return (
    <div class="strip info" role="status">
      <Icon name="redo" />
      <span class="text">{t('new_version')}</span>
      <span class="end">
        <button type="button" class="btn s" onClick={() => location.reload()}>
          {t('reload_page')}
        </button>
      </span>
    </div>
  );
}

function NoTokens() {
  return (
    <div class="strip info" role="note">
      <Icon name="tokens" />
      <span class="text">
        {t('local_banner')} <a href={href('access')}>{t('local_banner_link')}</a>
      </span>
    </div>
  );
}
