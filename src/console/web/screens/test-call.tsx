// Test call: one real request of a topic, or of a draft of its settings. dq stores and counts nothing. A button
// with a dialog on the page of the topic, and a card beside its settings.

import { useEffect, useState } from 'preact/hooks';
import type { TestCallJson } from '../../../contract/api/test-call.ts';
import { CallError, call, topicPath } from '../api/call.ts';
import { dots, duration, number } from '../format.ts';
import { Modal } from '../parts/dialog.tsx';
import { Field, Form, useAction } from '../parts/form.tsx';
import { Button, Card, Code, errorText, Failure, Icon, Pill } from '../parts/parts.tsx';
import { t, wordOf } from '../words/words.ts';

/** Only for sessions with the scope operate. */
export function TestCallButton({ topic, isMessage }: { topic: string; isMessage: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon="bolt" onClick={() => setOpen(true)}>
        {t(isMessage ? 'test_message' : 'test_call')}
      </Button>
      {open ? <TestCallDialog topic={topic} isMessage={isMessage} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function TestCallDialog({
  topic,
  isMessage,
  onClose,
}: {
  topic: string;
  isMessage: boolean;
  onClose: () => void;
}) {
  return (
    <Modal
      title={t(isMessage ? 'test_message_of' : 'test_call_of', { topic })}
      note={t(isMessage ? 'test_message_note' : 'test_call_note')}
      look="test-call"
      onClose={onClose}
    >
      {(close) => (
        <>
          <div class="body">
            <TestCall topic={topic} isMessage={isMessage} draft={() => null} />
          </div>
          <div class="bottom">
            <Button onClick={close}>{t('close')}</Button>
          </div>
        </>
      )}
    </Modal>
  );
}

interface TestCallProps {
  readonly topic: string;
  /** delivery mq */
  readonly isMessage: boolean;
  /** members of the topic that were changed; null: none. Only for sessions with the scope admin */
  readonly draft: () => object | null;
  /** each higher number starts one more call */
  readonly runs?: number;
}

export function TestCallCard(props: TestCallProps) {
  return (
    <Card
      title={t(props.isMessage ? 'test_message' : 'test_call')}
      note={t(props.isMessage ? 'test_message_note' : 'test_call_note')}
      look="body"
    >
      <TestCall {...props} />
    </Card>
  );
}

function TestCall({ topic, isMessage, draft, runs = 0 }: TestCallProps) {
  const [body, setBody] = useState('{}');
  const [type, setType] = useState('application/json');
  const [result, setResult] = useState<TestCallJson | null>(null);
  const { busy, failure, run } = useAction((error) =>
    wordOf(`test_call_${error instanceof CallError ? error.code : ''}`, errorText(error)),
  );
  const send = () =>
    run(async () => {
      setResult(null);
      const changed = draft();
      const contentType = type.trim() === '' ? null : type.trim();
      const json = { body, contentType, ...(changed === null ? {} : { draft: changed }) };
      setResult(await call<TestCallJson>('POST', topicPath(topic, 'test-call'), { json }));
    });
  useEffect(() => {
    if (runs > 0) void send();
  }, [runs]);
  return (
    <Form look="stack" onSend={send}>
      <div class="form">
        <Field label={t('body')} isWide rows={3} value={body} onType={setBody} />
        <Field label={t('content_type')} isWide value={type} onType={setType} />
      </div>
      <div>
        <button type="submit" class="btn main" disabled={busy}>
          <Icon name="bolt" small />
          {t(busy ? 'test_call_runs' : isMessage ? 'test_message_send' : 'test_call_send')}
        </button>
      </div>
      <Failure text={failure} />
      <div role="status" class="stack">
        {result === null ? null : <Result {...result} />}
      </div>
    </Form>
  );
}

function Result({ request, reply, phases, verdict, ruleValues, notifier }: TestCallJson) {
  const { outcome, reason, detail, next, delayMs } = verdict;
  const done = outcome === 'delivered';
  return (
    <>
      <div class="verdict">
        <Pill colour={done ? 'done' : next === 'bury' ? 'dead' : 'retry'}>
          {done
            ? t(reply === null ? 'test_message_confirmed' : 'test_call_success')
            : outcome === 'again'
              ? t('verdict_again')
              : (reason ?? t('test_call_not_started'))}
        </Pill>
        {reply === null ? null : <span class="mono">{reply.status}</span>}
        <span class="mono">{`${number(phases.totalMs)} ${t('unit_ms')}`}</span>
        <span class="faint">{phasesText(phases)}</span>
        {Object.entries(ruleValues ?? {}).map(([name, value]) => (
          <span key={name} class="mono">{`${name} = ${value}`}</span>
        ))}
      </div>
      {detail === '' ? null : <p class="mono wrong">{detail}</p>}
      <p class="soft">
        {next === null
          ? t('test_next_none')
          : t(`test_next_${next}`, { time: delayMs === null ? '' : duration(delayMs) })}{' '}
        <span class="faint">{t('test_call_by', { notifier })}</span>
      </p>
      {reply === null ? null : (
        <>
          <h3>{t('reply')}</h3>
          <Code>
            {reply.body === '' ? t('test_empty_body') : reply.body}
            {reply.cut ? '…' : ''}
          </Code>
          <details>
            <summary>{t('test_reply_headers')}</summary>
            <Code>{reply.headers.join('\n')}</Code>
          </details>
        </>
      )}
      <details>
        <summary>{t(request.method === 'PUBLISH' ? 'message' : 'request')}</summary>
        <Code>
          {[
            `${request.method} ${request.url}`,
            ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`),
            '',
            request.body,
          ].join('\n')}
        </Code>
      </details>
    </>
  );
}

const phaseWords = {
  lookupMs: 'phase_lookup',
  connectMs: 'phase_connect',
  tlsMs: 'phase_tls',
  waitMs: 'phase_wait',
  readMs: 'phase_read',
} as const;

/** "dns 1 · connect 3 · tls 19 · first byte 50": without phases that did not take place. */
function phasesText(phases: TestCallJson['phases']): string {
  const texts = Object.entries(phaseWords).map(([name, word]) => {
    const ms = phases[name as keyof typeof phaseWords];
    return ms !== null && `${t(word)} ${number(ms)}`;
  });
  return dots(...texts);
}
