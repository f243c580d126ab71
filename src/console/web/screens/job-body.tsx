// The body of a job: formatted JSON that keeps big integers, the characters as they are, or the bytes in hex.
// Bodies above 64 KiB are drawn when they are asked for.

import { useState } from 'preact/hooks';
import type { JobJson } from '../../../contract/api/job.ts';
import { bytes, dots } from '../format.ts';
import { isJson, JsonView } from '../parts/json-view.tsx';
import { Button, Card, Code, CopyButton, Empty } from '../parts/parts.tsx';
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
