// Access: tokens and sessions. A created token is shown once.

import { useState } from 'preact/hooks';
import type { CreatedTokenJson, SessionJson, TokenJson } from '../../../contract/api/access.ts';
import type { Scope } from '../../../core/token.ts';
import { CallError, call, replaceSession } from '../api/call.ts';
import { type Polled, usePoll } from '../api/poll.ts';
import { daemonNow, me, signInAndStay } from '../api/session.ts';
import { number, relative, useSecond } from '../format.ts';
import { ask } from '../parts/dialog.tsx';
import { Check, Field, Form, Missing, useAction } from '../parts/form.tsx';
import { List, timeColumn } from '../parts/list.tsx';
import {
  actorName,
  Button,
  Card,
  Code,
  CopyButton,
  errorText,
  Failure,
  Head,
  LoadError,
  Select,
  toast,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { t } from '../words/words.ts';

/** Of core/token.ts, which runs in no browser: the compiler names a scope that is missing here. */
const scopes = Object.keys({
  read: true,
  push: true,
  pull: true,
  operate: true,
  admin: true,
} satisfies Record<Scope, true>) as readonly Scope[];
const lives = ['', '7d', '30d', '90d', '365d'] as const;

export function Screen() {
  useSecond();
  const isFirst = me()?.tokensExist === false;
  const tokens = usePoll<{ items: readonly TokenJson[] }>('/v1/tokens', 10_000);
  const sessions = usePoll<{ items: readonly SessionJson[] }>('/v1/sessions', 10_000);
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Head
        title={t('access')}
        actions={
          <button type="button" class="btn main" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {t('create_token')}…
          </button>
        }
      />
      {isOpen ? <NewToken isFirst={isFirst} changed={tokens.refresh} /> : null}
      <Card title={t('tokens')}>
        <LoadError error={tokens.error} what={t('tokens')} retry={tokens.refresh} />
        <Tokens
          from={tokens}
          sessions={sessions.data?.items ?? []}
          changed={() => {
            tokens.refresh();
            sessions.refresh();
          }}
        />
      </Card>
      <Card title={t('sessions')}>
        <LoadError error={sessions.error} what={t('sessions')} retry={sessions.refresh} />
        <Sessions from={sessions} />
      </Card>
    </>
  );
}

/** `isFirst`: no token exists yet. It ends the session of this page, which signs in with it at once. */
function NewToken({ isFirst, changed }: { isFirst: boolean; changed: () => void }) {
  const [name, setName] = useState('');
  const [topics, setTopics] = useState('*');
  const [chosen, setChosen] = useState<ReadonlySet<Scope>>(new Set([isFirst ? 'admin' : 'read']));
  const [life, setLife] = useState<(typeof lives)[number]>('');
  const [made, setMade] = useState<string | null>(null);
  const { failure, run } = useAction((problem) =>
    problem instanceof CallError && problem.code === 'token_exists' ? t('token_exists') : errorText(problem),
  );
  const make = async (): Promise<void> => {
    const json = {
      name,
      scopes: scopes.filter((scope) => chosen.has(scope)),
      topics: topics.split(',').map((topic) => topic.trim()),
      ...(life === '' ? {} : { expiresIn: life }),
    };
    const { token } = await call<CreatedTokenJson>('POST', '/v1/tokens', { json });
    setMade(token);
    setName('');
    if (isFirst) await signInAndStay(token);
  };
  const create = async (): Promise<void> => {
    if (isFirst && !chosen.has('admin')) throw new CallError(400, 'shown', t('first_token_admin'));
    await (isFirst ? replaceSession(make) : make());
    changed();
  };
  const toggle = (scope: Scope): void => {
    const next = new Set(chosen);
    if (!next.delete(scope)) next.add(scope);
    setChosen(next);
  };
  return (
    <Card title={t('create_token')}>
      <Form onSend={() => run(create)}>
        <Field label={t('name')} value={name} onType={setName} />
        <Field label={t('topics_glob')} value={topics} onType={setTopics} />
        <Select
          label={t('expires_after')}
          value={life}
          options={lives.map((one) => [one, t(one === '' ? 'expires_never' : `expires_${one}`)] as const)}
          onChoose={setLife}
        />
        <fieldset>
          <legend>{t('scopes')}</legend>
          <div class="wide fields">
            {scopes.map((scope) => (
              <Check key={scope} look="field" isOn={chosen.has(scope)} onChange={() => toggle(scope)}>
                {scope}
              </Check>
            ))}
          </div>
        </fieldset>
        {isFirst ? <p class="wide soft">{t('first_token_note')}</p> : null}
        <Failure text={failure} place="wide" />
        {made === null ? null : (
          <div class="wide title" role="status">
            <Code>{made}</Code>
            <CopyButton text={made} label={t('copy')} />
            <b>{t('secret_once')}</b>
          </div>
        )}
        <div class="wide fields">
          <button type="submit" class="btn main" disabled={name === '' || chosen.size === 0}>
            {t('create_token')}
          </button>
          <Missing fields={[name === '' && t('name'), chosen.size === 0 && t('scopes')]} />
        </div>
      </Form>
    </Card>
  );
}

/** Sessions end with the token that they came from; they have its name. */
function sessionsOf({ name }: TokenJson, sessions: readonly SessionJson[]): number {
  return sessions.filter((one) => one.signedInBy === 'token' && one.name === name).length;
}

function askRemove(token: TokenJson, ending: number, isLast: boolean, changed: () => void): void {
  const { name } = token;
  const consequence =
    ending === 0 ? t('remove_token_text') : t('remove_token_sessions', { count: number(ending) });
  ask({
    title: t('remove_token_question', { name }),
    body: `${consequence}${isLast ? ` ${t('remove_last_token_text')}` : ''}`,
    action: t('remove'),
    danger: true,
    run: async () => {
      await call('DELETE', `/v1/tokens/${encodeURIComponent(name)}`);
      toast(t('done'));
      changed();
    },
  });
}

function LastUsed({ lastUsedAt }: TokenJson) {
  if (lastUsedAt === null) return <span class="faint">{t('never_used')}</span>;
  return <Time at={lastUsedAt} text={relative} />;
}

const hasExpired = (at: string | null): boolean => at !== null && Date.parse(at) <= daemonNow();

function Expires({ expiresAt }: TokenJson) {
  if (expiresAt === null) return <span class="faint">{t('expires_never')}</span>;
  if (hasExpired(expiresAt)) return <span class="tag bad">{t('expired')}</span>;
  return <Time at={expiresAt} text={relative} />;
}

function Tokens({
  from: { data, error },
  sessions,
  changed,
}: {
  from: Polled<{ items: readonly TokenJson[] }>;
  sessions: readonly SessionJson[];
  changed: () => void;
}) {
  const [isWhole, setWhole] = useState(false);
  const isLast = data?.items.length === 1;
  // Tokens that have ended stay until they are removed, and say nothing of who has access.
  const living = data?.items.filter(({ expiresAt }) => !hasExpired(expiresAt)) ?? null;
  const ended = (data?.items.length ?? 0) - (living?.length ?? 0);
  const isFolded = !isWhole && ended > 0 && living?.length !== 0;
  return (
    <>
      <List
        items={isFolded ? living : (data?.items ?? null)}
        error={error}
        rows={2}
        empty={t('no_tokens')}
        keyOf={({ id }) => id}
        columns={{
          name: { head: t('name'), cell: ({ name }) => name, card: ({ name }) => <b>{name}</b> },
          scopes: { head: t('scopes'), cell: (token) => token.scopes.join(' ') },
          topics: { head: t('topics'), look: 'mono', cell: ({ topics }) => topics.join(' ') },
          id: { head: 'ID', look: 'mono faint extra', cell: ({ id }) => id },
          created: timeColumn(t('created'), 'createdAt', 'right soft spare'),
          used: { head: t('last_used'), look: 'right soft', isNamed: true, cell: LastUsed },
          expires: { head: t('expires'), look: 'right soft', isNamed: true, cell: Expires },
          remove: {
            head: null,
            look: 'right',
            cell: (token) => (
              <Button
                look="s danger"
                onClick={() => askRemove(token, sessionsOf(token, sessions), isLast, changed)}
              >
                {t('remove')}…
              </Button>
            ),
          },
        }}
        card={{ row: ['name', 'remove'], soft: ['scopes', 'topics'], faint: ['used', 'expires'] }}
      />
      {isFolded ? (
        <div class="more">
          <Button look="s" onClick={() => setWhole(true)}>
            {t('show_expired', { count: number(ended) })}
          </Button>
        </div>
      ) : null}
    </>
  );
}

const SessionName = ({ name, isOwn }: SessionJson) => (
  <b>
    {isOwn ? <span class="tag good">{t('this_session')}</span> : null} {actorName(name)}
  </b>
);

function Sessions({ from: { data, error, refresh } }: { from: Polled<{ items: readonly SessionJson[] }> }) {
  const { failure, run } = useAction();
  const end = ({ id }: SessionJson) =>
    run(async () => {
      await call('DELETE', `/v1/sessions/${encodeURIComponent(id)}`);
      refresh();
    });
  return (
    <>
      <Failure text={failure} place="nothing" />
      <List
        items={data?.items.toSorted((a, b) => Number(b.isOwn) - Number(a.isOwn)) ?? null}
        error={error}
        rows={2}
        empty={t('no_sessions')}
        keyOf={({ id }) => id}
        columns={{
          name: { head: t('name'), cell: SessionName },
          scopes: { head: t('scopes'), cell: (session) => session.scopes.join(' ') },
          by: { head: t('signed_in_by'), cell: ({ signedInBy }) => t(`by_${signedInBy}`) },
          browser: { head: t('browser'), cell: ({ browser }) => browser || '–' },
          address: { head: t('address'), look: 'mono', cell: ({ address }) => address },
          used: timeColumn(t('last_used'), 'usedAt', 'soft', relative),
          ends: timeColumn(t('ends'), 'endsAt', 'soft'),
          end: {
            head: null,
            look: 'right',
            cell: (session) => (
              <Button look="s" onClick={() => end(session)}>
                {t('sign_out')}
              </Button>
            ),
          },
        }}
        card={{ row: ['name', 'end'], soft: ['browser', 'address'], faint: ['used', 'ends'] }}
      />
    </>
  );
}
