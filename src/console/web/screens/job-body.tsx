// The body of a job: formatted JSON that keeps big integers, the characters as they are, or the bytes in hex.
// Bodies above 64 KiB are drawn when they are asked for.
// Edit and requeue of a dead letter: its body as a text, the difference, and one call that does both. The
// editor keeps the version that it began with: a job that changes meanwhile is shown, and stays as it is.

import { useMemo, useState } from 'preact/hooks';
import type { JobJson } from '../../../contract/api/job.ts';
import { CallError, call, topicPath } from '../api/call.ts';
import { bytes, dots } from '../format.ts';
import { ask, useLeaveCheck } from '../parts/dialog.tsx';
import { BodyField, Check, Form, jsonMistake, useAction } from '../parts/form.tsx';
import { compact, formatted, isJson, isJsonType, JsonView } from '../parts/json-view.tsx';
import { Button, Card, Code, CopyButton, Empty, Failure, toast } from '../parts/parts.tsx';
import { t } from '../words/words.ts';

type View = 'formatted' | 'raw' | 'hex';

/** Characters that are drawn at once. */
const shownMax = 65_536;
/** Bytes of a hex view: 256 lines. */
const hexMax = 4_096;

export function JobBody({ job }: { job: JobJson }) {
  const { body, bodyBase64 } = job;
  const text = body ?? bodyBase64;
  const views: readonly View[] =
    body === undefined ? ['hex', 'raw'] : isJson(body) ? ['formatted', 'raw', 'hex'] : ['raw', 'hex'];
  const [chosen, choose] = useState<View | null>(null);
  const [isAsked, setAsked] = useState(false);
  if (text === undefined)
    return (
      <Card title={t('body')}>
        <Empty>{t('no_body')}</Empty>
      </Card>
    );
  const view = chosen !== null && views.includes(chosen) ? chosen : (views[0] ?? 'raw');
  const next = views[(views.indexOf(view) + 1) % views.length] ?? view;
  const isBig = text.length > shownMax && !isAsked;
  return (
    <Card
      title={t('body')}
      note={dots(bytes(job.bytes ?? text.length), job.contentType, body === undefined && 'base64')}
      end={
        <>
          <Button look="plain s" onClick={() => choose(next)}>
            {t(next)}
          </Button>
          <CopyButton text={text} label={t('copy')} />
        </>
      }
      look="body"
    >
      {isBig ? (
        <Button look="s" onClick={() => setAsked(true)}>
          {t('show_body', { size: bytes(job.bytes ?? text.length) })}
        </Button>
      ) : view === 'hex' ? (
        <Code isCut>{hexOf(bytesOf(body, bodyBase64))}</Code>
      ) : (
        <JsonView text={text} raw={view === 'raw'} />
      )}
    </Card>
  );
}

function bytesOf(body: string | undefined, bodyBase64: string | undefined): Uint8Array {
  if (body !== undefined) return new TextEncoder().encode(body);
  return Uint8Array.from(atob(bodyBase64 ?? ''), (character) => character.charCodeAt(0));
}

/** Lines of 8 bytes, which fit a card: offset, bytes, printable ASCII. */
function hexOf(all: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(all.length, hexMax); at += 8) {
    const part = [...all.slice(at, at + 8)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const ascii = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(4, '0')}  ${hex.padEnd(23)}  ${ascii}`);
  }
  if (all.length > hexMax) lines.push(t('hex_cut', { count: all.length - hexMax }));
  return lines.join('\n');
}

/** Equal lines that are shown before and after the difference. */
const contextLines = 2;

/** `job`: as it is now; `close`: ends the editor. */
export function JobEdit({ job, close, refresh }: { job: JobJson; close: () => void; refresh: () => void }) {
  const [base, setBase] = useState(job);
  const [body, setBody] = useState(() => shownBody(job));
  const [hasNewId, setNewId] = useState(false);
  const { busy, failure, run } = useAction();
  const isText = !isJsonType(base.contentType);
  // The page draws itself again each second; a body can have megabytes.
  const mistake = useMemo(() => (isText ? null : jsonMistake(body)), [isText, body]);
  const before = useMemo(() => shownBody(base), [base]);
  const isCompact = before !== (base.body ?? '');
  const difference = useMemo(() => <Difference before={before} after={body} />, [before, body]);
  const isStale = job.version !== base.version;
  const isTyped = body !== before;
  useLeaveCheck(isTyped);
  const discard = (then: () => void): void => {
    if (!isTyped) then();
    else
      ask({
        title: t('edit_discard_question'),
        body: t('leave_text'),
        action: t('discard'),
        keep: t('stay'),
        danger: true,
        run: async () => then(),
      });
  };
  const send = (): Promise<void> =>
    run(async () => {
      // The characters of JSON are sent as they are: a parse would change big integers.
      const sent = isText ? JSON.stringify(body) : isCompact ? compact(body) : body;
      const text = `{"requeue":true,"newWebhookId":${hasNewId},"body":${sent}}`;
      const headers = { 'if-match': `"${base.version}"` };
      const path = topicPath(base.topic, 'jobs', base.id);
      try {
        await call('PATCH', path, { text, contentType: 'application/json', headers });
        close();
        toast(t('toast_edited'));
      } catch (error) {
        if (!(error instanceof CallError && error.status === 412)) throw error;
        throw new Error(t('edit_changed'), { cause: error });
      } finally {
        refresh();
      }
    });
  return (
    <Card title={t('edit_requeue')} note={base.contentType ?? ''}>
      <Form look="body form one-top" onSend={send}>
        <BodyField rows={12} value={body} mistake={mistake} onType={setBody} />
        <div class="wide">
          <strong>{t('difference')}</strong>
          {difference}
        </div>
        <Check look="wide check" isOn={hasNewId} onChange={() => setNewId(!hasNewId)}>
          {t('new_webhook_id')}
        </Check>
        {isStale ? (
          <div class="wide">
            <p role="status">{t(job.state === 'dead' ? 'edit_changed' : 'edit_not_dead')}</p>
            <Button
              onClick={() =>
                discard(() => {
                  setBase(job);
                  setBody(shownBody(job));
                })
              }
            >
              {t('edit_again')}
            </Button>
          </div>
        ) : null}
        <Failure place="wide" text={isStale ? null : failure} />
        <div class="wide fields">
          <button
            type="submit"
            class="btn main"
            disabled={busy || isStale || mistake !== null || job.state !== 'dead'}
          >
            {t('edit_requeue')}
          </button>
          <Button onClick={() => discard(close)}>{t('cancel')}</Button>
        </div>
      </Form>
    </Card>
  );
}

/** Compact JSON, such as that of an outcome job, has one member a line. It is sent as compact as it was. */
function shownBody({ body = '', contentType }: JobJson): string {
  if (!isJsonType(contentType)) return body;
  const lines = formatted(body);
  return compact(lines) === body ? lines : body;
}

/** The lines between the common beginning and the common end; JSON with one member a line. */
function Difference({ before, after }: { before: string; after: string }) {
  if (before === after) return <p class="soft">{t('no_difference')}</p>;
  const [old, next] = [formatted(before).split('\n'), formatted(after).split('\n')];
  const most = Math.min(old.length, next.length);
  let same = 0;
  while (same < most && old[same] === next[same]) same += 1;
  let tail = 0;
  while (tail < most - same && old.at(-1 - tail) === next.at(-1 - tail)) tail += 1;
  const [from, to] = [old.length - tail, next.length - tail];
  return (
    <Code isCut>
      {old.slice(Math.max(0, same - contextLines), same).map((line) => `  ${line}\n`)}
      {old.slice(same, from).map((line) => (
        <del>{`- ${line}\n`}</del>
      ))}
      {next.slice(same, to).map((line) => (
        <ins>{`+ ${line}\n`}</ins>
      ))}
      {old.slice(from, from + contextLines).map((line) => `  ${line}\n`)}
    </Code>
  );
}
