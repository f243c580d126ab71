// Schedules: the list of recurring jobs; one with its next times and its last job; the form that adds and
// changes one. dq computes the times of what is typed: the page reads no cron expressions.

import { useEffect, useState } from 'preact/hooks';
import type { JobJson } from '../../../contract/api/job.ts';
import type { ScheduleJson, SchedulePreviewJson } from '../../../contract/api/schedule.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import { tickId } from '../../../core/job-id.ts';
import { heldOf } from '../../../core/job-why.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { CallError, call, type FieldError, topicPath } from '../api/call.ts';
import { usePages, usePoll } from '../api/poll.ts';
import { may } from '../api/session.ts';
import { relative, spoken, useSecond, zone, zoneClock } from '../format.ts';
import { ask, Menu, useLeaveCheck } from '../parts/dialog.tsx';
import {
  BodyField,
  Check,
  Field,
  Form,
  Input,
  jsonMistake,
  Missing,
  usePreview,
  Wrong,
} from '../parts/form.tsx';
import { isJsonType } from '../parts/json-view.tsx';
import { List, timeColumn } from '../parts/list.tsx';
import {
  Button,
  Card,
  Code,
  Empty,
  errorText,
  Facts,
  Failure,
  Head,
  JobLink,
  JobState,
  LoadError,
  NewLink,
  Pill,
  Select,
  Strip,
  TopicLink,
  toast,
  Waiting,
} from '../parts/parts.tsx';
import { Time } from '../parts/time.tsx';
import { go, href, place, type Segments } from '../router.ts';
import { t, type Word } from '../words/words.ts';

const pathOf = (name: string, verb = ''): string => `/v1/schedules/${encodeURIComponent(name)}${verb}`;

export function Screen({ first, second }: Segments) {
  if (first === undefined) return <AllSchedules />;
  if (first === 'new' && place.value.query.has('create')) return <NewSchedule />;
  return second === 'edit' ? <EditSchedule key={first} name={first} /> : <One key={first} name={first} />;
}

function AllSchedules() {
  useSecond();
  const { items, error, more, refresh } = usePages<ScheduleJson>('/v1/schedules', { limit: '50' }, 5_000);
  return (
    <>
      <Head
        title={t('schedules')}
        sub={t('schedules_sub')}
        actions={<NewLink section="schedules">{t('new_schedule')}</NewLink>}
      />
      <LoadError error={error} what={t('schedules')} retry={refresh} />
      <section class="card">
        <List
          items={items}
          error={error}
          empty={t('schedules_empty')}
          more={more}
          keyOf={({ name }) => name}
          columns={{
            name: { head: t('schedule'), cell: Name },
            state: { head: t('state'), cell: State },
            topic: { head: t('topic'), cell: TopicLink },
            times: { head: t('times'), cell: Times },
            next: timeColumn(t('next_time'), 'nextAt', 'right soft nowrap', relative),
            last: timeColumn(t('last_time'), 'lastAt', 'right soft nowrap', relative),
            menu: { head: null, look: 'right', cell: (one) => <RowMenu schedule={one} done={refresh} /> },
          }}
          card={{ row: ['name', 'state', 'menu'], soft: ['times', 'topic'], faint: ['next', 'last'] }}
        />
      </section>
    </>
  );
}

const Name = ({ name }: ScheduleJson) => (
  <a class="name" href={href('schedules', name)}>
    {name}
  </a>
);

function State({ paused, problem, nextAt }: ScheduleJson) {
  if (paused) return <Pill colour="retry">{t('state_paused')}</Pill>;
  if (problem !== null) return <Pill colour="dead">{t('schedule_problem')}</Pill>;
  if (nextAt === null) return <Pill colour="quiet">{t('no_time_follows')}</Pill>;
  return <Pill colour="done">{t('schedule_active')}</Pill>;
}

/** In the list with the zone below: it decides what the numbers mean. */
function Times({ cron, every, timezone }: ScheduleJson) {
  if (cron === null) return <span>{t('every_time', { time: spoken(every ?? '') })}</span>;
  return (
    <span class="two">
      <span class="mono">{cron}</span>
      <small>{timezone}</small>
    </span>
  );
}

/** What dq reports, in the language of the page where it is a known sentence. */
function problemText(problem: string): string {
  if (problem.startsWith('missed: ')) return t('schedule_missed');
  return problem.startsWith('clock: ') ? t('schedule_clock') : problem;
}

function actions(schedule: ScheduleJson, done: () => void): readonly (readonly [Word, () => void])[] {
  const { name, topic, paused } = schedule;
  const post = (verb: 'pause' | 'resume' | 'run') => async () => {
    await call('POST', pathOf(name, `/${verb}`));
    toast(t('done'));
    done();
  };
  const question = (verb: 'pause' | 'resume', body: Word) => (): void =>
    ask({ title: t(`${verb}_question`, { topic: name }), body: t(body), action: t(verb), run: post(verb) });
  const run = (): void =>
    ask({
      title: t('run_schedule_question', { name }),
      body: t('run_schedule_text', { topic }),
      action: t('run_now'),
      run: post('run'),
    });
  const remove = (): void =>
    ask({
      title: t('remove_token_question', { name }),
      body: t('remove_schedule_text'),
      action: t('remove'),
      danger: true,
      run: async () => {
        await call('DELETE', pathOf(name));
        toast(t('done'));
        done();
        go(href('schedules'));
      },
    });
  return [
    ...(may('operate')
      ? [
          ['run_now', run] as const,
          paused
            ? (['resume', question('resume', 'resume_schedule_text')] as const)
            : (['pause', question('pause', 'pause_schedule_text')] as const),
        ]
      : []),
    ...(may('admin')
      ? [['edit', () => go(href('schedules', name, 'edit'))] as const, ['remove', remove] as const]
      : []),
  ];
}

const actionText = (word: Word): string => `${t(word)}${word === 'edit' ? '' : '…'}`;

function RowMenu({ schedule, done }: { schedule: ScheduleJson; done: () => void }) {
  const all = actions(schedule, done);
  if (all.length === 0) return null;
  return (
    <Menu label={t('row_menu', { topic: schedule.name })}>
      {all.map(([word, act]) => (
        <button key={word} type="button" onClick={act}>
          {actionText(word)}
        </button>
      ))}
    </Menu>
  );
}

function One({ name }: { name: string }) {
  useSecond();
  const poll = usePoll<ScheduleJson>(pathOf(name), 5_000);
  const one = poll.data;
  if (poll.error?.code === 'schedule_not_found') return <NotFound />;
  if (one === null)
    return poll.error === null ? (
      <Waiting />
    ) : (
      <LoadError error={poll.error} what={t('schedule')} retry={poll.refresh} />
    );
  return (
    <>
      <Head
        actions={actions(one, poll.refresh).map(([word, act]) => (
          <Button key={word} look={word === 'remove' ? 'danger' : ''} onClick={act}>
            {actionText(word)}
          </Button>
        ))}
      >
        <div class="title">
          <h1>{name}</h1>
          <State {...one} />
        </div>
      </Head>
      <LoadError error={poll.error} what={t('schedule')} retry={poll.refresh} />
      {one.problem === null ? null : (
        <Strip role="note">
          <b>{t('last_not_made')}</b> <span lang="en">{problemText(one.problem)}</span>
        </Strip>
      )}
      <div class="cols">
        <Card title={t('details')} width={6} look="body">
          <Facts
            rows={[
              [t('topic'), <TopicLink key="topic" topic={one.topic} />],
              [t('times'), one.cron ?? t('every_time', { time: spoken(one.every ?? '') }), one.cron !== null],
              one.cron !== null && [t('time_zone'), one.timezone],
              [t('missed_times'), t(`missed_${one.missed}`)],
              [t('content_type'), one.contentType ?? '–', true],
              [t('last_time'), <LastJob key="last" {...one} />],
            ]}
          />
        </Card>
        <Card title={t('next_times')} note={one.cron === null ? zone() : one.timezone} width={6}>
          {one.nextTimes === undefined || one.nextTimes.length === 0 ? (
            <Empty>{t(one.paused ? 'state_paused' : 'no_time_follows')}</Empty>
          ) : (
            <NextTimes times={one.nextTimes} timezone={one.cron === null ? zone() : one.timezone} />
          )}
        </Card>
      </div>
      <Card title={t('body')} look="body">
        <Code>{one.body === '' ? t('test_empty_body') : one.body}</Code>
      </Card>
    </>
  );
}

const NotFound = () => <Head title={t('schedule_not_found')} />;

/** The last instant with a job, and what became of the job while dq knows it. */
function LastJob({ name, topic, lastAt }: ScheduleJson) {
  const id = lastAt === null ? null : tickId(name, Date.parse(lastAt));
  const job = usePoll<JobJson>(id === null ? null : topicPath(topic, 'jobs', id), 5_000);
  if (lastAt === null || id === null) return <span class="faint">–</span>;
  const isGone = job.error?.code === 'job_not_found';
  return (
    <span class="stack">
      <span>
        <Time at={lastAt} /> · <Time at={lastAt} text={relative} />{' '}
        {job.data === null ? (
          isGone ? (
            <span class="faint">{t('job_not_kept')}</span>
          ) : null
        ) : (
          <JobState state={job.data.state} attempt={job.data.attempt} held={heldOf(job.data.why)} />
        )}
      </span>
      {isGone ? null : <JobLink topic={topic} id={id} />}
    </span>
  );
}

function NextTimes({ times, timezone }: { times: readonly string[]; timezone: string }) {
  return (
    <ol class="body times">
      {times.map((at) => (
        <li key={at}>
          <Time at={at} text={(ms) => zoneClock(ms, timezone)} />
          <span class="faint">
            <Time at={at} text={relative} />
          </span>
        </li>
      ))}
    </ol>
  );
}

const json = 'application/json';

const emptyForm = () => ({
  name: '',
  topic: place.value.query.get('topic') ?? '',
  kind: 'cron' as 'cron' | 'every',
  cron: '0 9 * * 1-5',
  every: '10m',
  timezone: zone(),
  missed: 'skip' as ScheduleJson['missed'],
  contentType: json,
  body: '{}',
});
type Values = Readonly<ReturnType<typeof emptyForm>>;

const formOf = ({ cron, every, contentType, ...one }: ScheduleJson): Values => ({
  ...emptyForm(),
  name: one.name,
  topic: one.topic,
  timezone: one.timezone,
  missed: one.missed,
  contentType: contentType ?? json,
  body: one.body,
  ...(cron === null ? { kind: 'every', every: every ?? '' } : { kind: 'cron', cron }),
});

const timesOf = ({ kind, cron, every, timezone }: Values) =>
  kind === 'cron' ? { cron, timezone } : { every };

/** As the API takes it: a JSON body is a value, every other one a text. undefined: no JSON. */
function bodyOf({ contentType, body }: Values): unknown {
  if (!isJsonType(contentType)) return body;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

const hasContentOf = (values: Values, before: Values | null): boolean =>
  values.body === before?.body && values.contentType === before.contentType;

/** What differs; all of a new one. */
function membersOf(values: Values, before: Values | null): Record<string, unknown> {
  const { name, topic, missed, contentType } = values;
  const all = { topic, ...timesOf(values), missed, contentType, body: bodyOf(values) };
  if (before === null) return { name, ...all };
  const old: Record<string, unknown> = { topic: before.topic, ...timesOf(before), missed: before.missed };
  return Object.fromEntries(
    Object.entries(all).filter(([member, value]) =>
      member === 'body' || member === 'contentType' ? !hasContentOf(values, before) : old[member] !== value,
    ),
  );
}

function NewSchedule() {
  return (
    <>
      <Head title={t('new_schedule')} />
      <ScheduleForm
        before={null}
        save={(members) => call<ScheduleJson>('POST', '/v1/schedules', { json: members })}
      />
    </>
  );
}

function EditSchedule({ name }: { name: string }) {
  // Read once: polls must not change what is typed.
  const [one, setOne] = useState<ScheduleJson | null>(null);
  const [error, setError] = useState<CallError | null>(null);
  const read = (): void => {
    call<ScheduleJson>('GET', pathOf(name)).then(setOne, setError);
  };
  useEffect(read, []);
  if (error?.code === 'schedule_not_found') return <NotFound />;
  if (one === null)
    return error === null ? <Waiting /> : <LoadError error={error} what={t('schedule')} retry={read} />;
  return (
    <>
      <Head title={name} />
      <ScheduleForm
        before={formOf(one)}
        save={(members) => call<ScheduleJson>('PATCH', pathOf(name), { json: members })}
      />
    </>
  );
}

/** The typed schedule: what differs from the stored one, and what dq and the page say about it. */
function useScheduleForm(before: Values | null, save: (members: object) => Promise<ScheduleJson>) {
  const [values, setValues] = useState<Values>(before ?? emptyForm);
  const [errors, setErrors] = useState<readonly FieldError[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  const [isSaved, setSaved] = useState(false);
  // With the name of a stored schedule: its creation counts for `every`.
  const draft = { name: before?.name, ...timesOf(values) };
  const { data: preview } = usePreview<SchedulePreviewJson>('/v1/schedules/preview', draft, true);
  const members = membersOf(values, before);
  const isChanged = before === null ? values.name !== '' : Object.keys(members).length > 0;
  // A schedule without a body has no mistake until one is typed.
  const mistake =
    isJsonType(values.contentType) && !hasContentOf(values, before) ? jsonMistake(values.body) : null;
  useLeaveCheck(isChanged && !isSaved);
  const submit = async (): Promise<void> => {
    try {
      const { name } = await save(members);
      toast(t('saved'));
      setSaved(true);
      // After the next frame: until then the page asks before it is left.
      requestAnimationFrame(() => go(href('schedules', name)));
    } catch (problem) {
      const known = problem instanceof CallError ? problem.errors : [];
      setErrors(known);
      setFailure(known.length === 0 ? errorText(problem) : null);
    }
  };
  return {
    values,
    set: (more: Partial<Values>): void => setValues({ ...values, ...more }),
    wrongOf: (field: string): string | undefined =>
      [...(preview?.errors ?? []), ...errors].find((error) => error.field === field)?.message,
    preview,
    isReady: isChanged && mistake === null,
    mistake,
    failure,
    submit,
  };
}

type FormState = ReturnType<typeof useScheduleForm>;

function ScheduleForm({
  before,
  save,
}: {
  before: Values | null;
  save: (members: object) => Promise<ScheduleJson>;
}) {
  useSecond();
  const form = useScheduleForm(before, save);
  const { values, set, wrongOf, preview, isReady, mistake, failure, submit } = form;
  const input = (field: 'name' | 'timezone' | 'contentType', label: string, list?: string) => (
    <Field
      key={field}
      label={label}
      value={values[field]}
      list={list}
      wrong={wrongOf(field)}
      onType={(text) => set({ [field]: text })}
    />
  );
  const shownZone = values.kind === 'cron' ? values.timezone : zone();
  return (
    <div class="cols">
      <Card width={7}>
        <Form look="body form one-top" onSend={submit}>
          {before === null ? input('name', t('name')) : null}
          <TopicChoice value={values.topic} set={set} />
          <TimesFields {...form} />
          {values.kind === 'cron' ? input('timezone', t('time_zone'), 'zones') : null}
          <Select
            label={t('missed_times')}
            value={values.missed}
            options={[
              ['skip', t('missed_skip')],
              ['last', t('missed_last')],
            ]}
            onChoose={(missed) => set({ missed })}
          />
          {input('contentType', t('content_type'))}
          <BodyField
            rows={6}
            value={values.body}
            mistake={mistake}
            wrong={wrongOf('body')}
            onType={(body) => set({ body })}
          />
          <Failure text={failure} place="wide" />
          <div class="wide fields">
            <button
              type="submit"
              class="btn main"
              disabled={!isReady || values.topic === '' || !may('admin')}
            >
              {t(before === null ? 'create_schedule' : 'save')}
            </button>
            <Missing fields={[values.name === '' && t('name'), values.topic === '' && t('topic')]} />
            <a class="btn plain" href={before === null ? href('schedules') : href('schedules', before.name)}>
              {t('cancel')}
            </a>
          </div>
        </Form>
      </Card>
      <Card title={t('next_times')} note={shownZone} width={5}>
        {preview === null ? (
          <Waiting rows={3} />
        ) : preview.times.length === 0 ? (
          <Empty>{t('no_time_follows')}</Empty>
        ) : (
          <NextTimes times={preview.times} timezone={shownZone} />
        )}
      </Card>
    </div>
  );
}

/** The topics, and the stored one where it is not among them. */
function TopicChoice({ value, set }: { value: string; set: FormState['set'] }) {
  const topics = usePoll<PageOf<TopicJson>>('/v1/topics', 30_000, { limit: '1000' });
  const names = topics.data?.items.map(({ topic }) => topic) ?? [];
  const known = value === '' || names.includes(value) ? names : [value, ...names];
  return (
    <Select
      label={t('topic')}
      value={value}
      options={[['', t('choose_topic')], ...known.map((name) => [name, name] as const)]}
      onChoose={(topic) => set({ topic })}
    />
  );
}

function TimesFields({ values, set, wrongOf }: FormState) {
  const kind = (one: Values['kind'], text: string) => (
    <>
      <Check group="kind" look="check" isOn={one === values.kind} onChange={() => set({ kind: one })}>
        {text}
      </Check>
      <Input
        label={text}
        value={values[one]}
        isWrong={one === values.kind && wrongOf(one) !== undefined}
        onFocus={() => set({ kind: one })}
        onType={(times) => set({ kind: one, [one]: times })}
      />
    </>
  );
  return (
    <fieldset class="wide when two-kinds">
      <legend>{t('times')}</legend>
      {kind('cron', t('by_cron'))}
      {kind('every', t('by_every'))}
      <small class="all soft">{t(values.kind === 'cron' ? 'cron_hint' : 'every_hint')}</small>
      <Wrong text={wrongOf(values.kind)} />
      <datalist id="zones">
        {Intl.supportedValuesOf('timeZone').map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </fieldset>
  );
}
