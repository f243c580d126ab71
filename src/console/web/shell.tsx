// Shell: navigation, top bar, the screen of the address, keys, dialog and toasts. Shows the sign-in without a
// session.

import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect, useLayoutEffect } from 'preact/hooks';
import type { MeJson } from '../../contract/api/access.ts';
import type { SummaryJson } from '../../contract/api/stats.ts';
import type { Scope } from '../../core/token.ts';
import { build, signedOut } from './api/call.ts';
import { usePoll } from './api/poll.ts';
import {
  clockOffset,
  followClock,
  may,
  me,
  session,
  signOut,
  start,
  summary,
  topicCount,
} from './api/session.ts';
import { clock, dots, relative, shortNumber, useSecond } from './format.ts';
import { bindKeys, keysShown } from './keys.ts';
import { KeysChoice, KeysDialog, LanguageButton, ThemeButton } from './parts/choices.tsx';
import { DialogHost } from './parts/dialog.tsx';
import { later, NewVersion } from './parts/later.tsx';
import { Button, Card, Head, Icon, Strip, Toasts } from './parts/parts.tsx';
import { Time } from './parts/time.tsx';
import { recalled, remember } from './remembered.ts';
import { href, type Place, place, type Segments } from './router.ts';
import { FindBox } from './screens/find.tsx';
import { Overview } from './screens/overview.tsx';
import { SignIn } from './screens/sign-in.tsx';
import { language, t, type Word } from './words/words.ts';

/** Build of the daemon that answered first. Another one later means that this page is outdated. */
const firstBuild = signal<string | null>(null);

interface ScreenEntry {
  readonly title: Word;
  readonly show: FunctionComponent<Segments>;
}

/** The screens by the first segment of the path. The navigation shows those that are here. */
const screens: Readonly<Record<string, ScreenEntry>> = {
  '': { title: 'overview', show: Overview },
  topics: { title: 'topics', show: later(() => import('./screens/topics.tsx')) },
  jobs: { title: 'jobs', show: later(() => import('./screens/jobs.tsx')) },
  dead: { title: 'dead_letters', show: later(() => import('./screens/dead.tsx')) },
  push: { title: 'push_job', show: later(() => import('./screens/push.tsx')) },
  schedules: { title: 'schedules', show: later(() => import('./screens/schedules.tsx')) },
  store: { title: 'store', show: later(() => import('./screens/store.tsx')) },
  alerts: { title: 'alerts', show: later(() => import('./screens/alerts.tsx')) },
  configuration: { title: 'configuration', show: later(() => import('./screens/configuration.tsx')) },
  doctor: { title: 'doctor', show: later(() => import('./screens/doctor.tsx')) },
  processes: { title: 'processes', show: later(() => import('./screens/processes.tsx')) },
  access: { title: 'access', show: later(() => import('./screens/access.tsx')) },
  operations: { title: 'operations', show: later(() => import('./screens/operation.tsx')) },
  audit: { title: 'audit_log', show: later(() => import('./screens/audit.tsx')) },
  first: { title: 'first_job', show: later(() => import('./screens/first.tsx')) },
  more: { title: 'more', show: More },
};

interface NavEntry {
  readonly section: string;
  readonly icon: string;
  /** the navigation omits it for other sessions */
  readonly scope?: Scope;
}

const mainEntries: readonly NavEntry[] = [
  { section: '', icon: 'overview' },
  { section: 'topics', icon: 'topics' },
  { section: 'jobs', icon: 'jobs' },
  { section: 'dead', icon: 'dead' },
  { section: 'push', icon: 'push', scope: 'push' },
  { section: 'schedules', icon: 'clock' },
  { section: 'operations', icon: 'bolt' },
];
const systemEntries: readonly NavEntry[] = [
  { section: 'store', icon: 'store' },
  { section: 'processes', icon: 'process' },
  { section: 'alerts', icon: 'alerts' },
  { section: 'access', icon: 'tokens', scope: 'admin' },
  { section: 'configuration', icon: 'config', scope: 'admin' },
  { section: 'audit', icon: 'audit', scope: 'admin' },
  { section: 'doctor', icon: 'doctor', scope: 'admin' },
];
/** Those that a phone has on the screen "more". */
const furtherEntries = [...mainEntries.slice(4), ...systemEntries];

const isShown = ({ section, scope }: NavEntry): boolean =>
  Object.hasOwn(screens, section) && (scope === undefined || may(scope));

export function Shell() {
  const { value } = session;
  useLayoutEffect(() => bindKeys(), []);
  // While no token exists a session that has ended begins again without a sign-in.
  useEffect(() => {
    if (signedOut.value) void start();
  }, [signedOut.value]);
  if (value.kind === 'starting') return null;
  if (value.kind === 'signed_out') return <SignIn error={value.error} ended={signedOut.value} />;
  if (signedOut.value) return <SignIn error={null} ended />;
  return <Signed me={value.me} />;
}

function Signed({ me }: { me: MeJson }) {
  const poll = usePoll<SummaryJson>('/v1/summary', 5_000);
  useEffect(() => {
    summary.value = poll.data;
    if (poll.data !== null && poll.at !== null && poll.sentAt !== null)
      followClock(poll.data.now, poll.sentAt, poll.at);
  }, [poll.data, poll.at]);
  if (firstBuild.value === null && build.value !== null) firstBuild.value = build.value;
  const isOld = firstBuild.value !== null && build.value !== firstBuild.value;
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
          <NavList entries={mainEntries} />
          <div>
            <h3>{t('system')}</h3>
            <NavList entries={systemEntries} />
          </div>
          <Foot {...me} />
        </nav>
        <div class="page">
          <TopBar me={me} at={poll.at} failed={poll.error !== null} />
          <main id="main" tabIndex={-1}>
            {isOld ? <NewVersion /> : null}
            {me.tokensExist || !may('admin') || place.value.path[0] === 'first' ? null : <NoTokens />}
            <ShownScreen at={place.value} />
          </main>
        </div>
      </div>
      <nav class="tabbar" aria-label={t('main_navigation')}>
        {mainEntries.slice(0, 4).map((entry) => (
          <TabLink key={entry.section} {...entry} />
        ))}
        <TabLink section="more" icon="more" />
      </nav>
      <Toasts />
      <DialogHost />
      {keysShown.value ? <KeysDialog /> : null}
    </>
  );
}

function currentOf(section: string) {
  const now = place.value.path[0] ?? '';
  const isUnder = section === 'more' && furtherEntries.some((entry) => entry.section === now);
  // The overview leads there while there is no topic.
  const isFirst = section === '' && now === 'first';
  return now === section || isUnder || isFirst ? 'page' : undefined;
}

/** Topics, and dead letters; undefined: unknown or not counted. */
function countOf(section: string): number | undefined {
  const data = summary.value;
  if (data === null) return undefined;
  if (section === 'topics') return topicCount(data) || undefined;
  return section === 'dead' ? data.states.dead || undefined : undefined;
}

function Count({ section }: { section: string }) {
  const count = countOf(section);
  if (count === undefined) return null;
  return <span class={section === 'dead' ? 'count bad' : 'count'}>{shortNumber(count)}</span>;
}

const pathOf = (section: string): string => (section === '' ? href() : href(section));
const titleOf = (section: string): string => {
  const title = screens[section]?.title;
  return title === undefined ? t('page_not_found') : t(title);
};

function NavList({ entries }: { entries: readonly NavEntry[] }) {
  return (
    <ul>
      {entries.filter(isShown).map(({ section, icon }) => (
        <li key={section}>
          <a href={pathOf(section)} aria-current={currentOf(section)}>
            <Icon name={icon} />
            {titleOf(section)}
            <Count section={section} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function TabLink({ section, icon }: NavEntry) {
  return (
    <a href={pathOf(section)} aria-current={currentOf(section)}>
      <Icon name={icon} />
      {section === 'dead' ? t('dead') : titleOf(section)}
      {section === 'dead' ? <Count section={section} /> : null}
    </a>
  );
}

function Foot({ version, host, store, timezone }: MeJson) {
  return (
    <div class="foot">
      <a
        href={href(...(language.value === 'zh' ? ['manual', 'zh'] : ['manual']))}
        target="_blank"
        rel="noopener"
      >
        {t('manual')}
      </a>
      {' · '}
      {may('admin') ? (
        <>
          <a href={href('first')}>{t('first_job')}</a>
          {' · '}
        </>
      ) : null}
      <button type="button" class="plain" onClick={() => (keysShown.value = true)}>
        {t('keys')}
      </button>
      <br />
      dq {version} · {host}
      <br />
      {t(store === 'redis' ? 'redis_store' : 'embedded_store')} · {timezone}
    </div>
  );
}

/** What a phone has no space for: the other screens and the choices of this browser. */
function More() {
  const who = me();
  return (
    <>
      <Head title={t('more')} />
      <Card>
        <nav class="nav-list" aria-label={t('system')}>
          <NavList entries={furtherEntries} />
        </nav>
      </Card>
      <Card title={t('this_browser')} look="body fields">
        <ThemeButton />
        <LanguageButton />
        <KeysChoice />
        <Button look="s" onClick={() => signOut()}>
          {t('sign_out')}
        </Button>
      </Card>
      {who === null ? null : <Foot {...who} />}
    </>
  );
}

function TopBar({ me, at, failed }: { me: MeJson; at: number | null; failed: boolean }) {
  useSecond();
  return (
    <header class="bar">
      <Crumbs at={place.value} />
      {at === null ? null : (
        <span class={failed ? 'live off' : 'live'}>
          {failed ? (
            <Time at={at + clockOffset.value} text={(ms) => t('not_live', { time: clock(ms) })} />
          ) : (
            <Time
              at={at + clockOffset.value}
              text={(ms) => dots(t('live'), t('updated', { time: relative(Math.floor(ms)) }))}
            />
          )}
        </span>
      )}
      <FindBox />
      <LanguageButton place="desk" />
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

/** "li.wei" → "LW" */
function initials(name: string): string {
  const parts = name.split(/[^\p{L}\p{N}]+/u).filter((part) => part !== '');
  return parts
    .slice(0, 2)
    .map((part) => [...part][0]?.toUpperCase() ?? '')
    .join('');
}

/** What the screen belongs to; its own title stands once, above its content. */
function Crumbs({ at: { path } }: { at: Place }) {
  const [section = '', ...rest] = path;
  const title = titleOf(section);
  useEffect(() => {
    document.title = `${[...rest].reverse().concat(title).join(' · ')} · dq`;
  });
  return (
    <div class="crumbs">
      {rest.length === 0 ? null : (
        <a href={href(section)}>
          <Icon name="back" small />
          {title}
        </a>
      )}
      {section === 'jobs' && rest.length > 1 ? (
        <>
          <span>/</span>
          <a href={href('topics', rest[0] ?? '')}>{rest[0]}</a>
        </>
      ) : null}
    </div>
  );
}

function ShownScreen({ at: { path } }: { at: Place }) {
  const [section = '', first, second] = path;
  const Show = Object.hasOwn(screens, section) ? screens[section]?.show : undefined;
  if (Show === undefined) return <Head title={t('page_not_found')} sub={t('page_not_found_text')} />;
  return <Show first={first} second={second} />;
}

/** Dismissed in this browser. */
const bannerKey = 'dq-no-token-banner';
const isBannerOff = signal(recalled(bannerKey) === 'off');

function NoTokens() {
  if (isBannerOff.value) return null;
  const dismiss = (): void => {
    isBannerOff.value = true;
    remember(bannerKey, 'off');
  };
  const end = <Button look="plain s square" icon="x" label={t('dismiss')} onClick={dismiss} />;
  return (
    <Strip tone="info" icon="tokens" role="note" end={end}>
      {t('local_banner')} <a href={href('access')}>{t('access')}</a>
    </Strip>
  );
}
