// Texts for numbers, durations and times, in the language of the page. Times are shown in the browser's zone.

import { useEffect, useState } from 'preact/hooks';
import { daemonNow } from './api/session.ts';
import { durationMs } from './backoff-waits.ts';
import { language, t } from './words/words.ts';

const locale = (): string => (language.value === 'zh' ? 'zh-CN' : 'en-GB');

/** Draws the component again each second while the page is visible: its relative times go on. */
export function useSecond(): void {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) draw((n) => n + 1);
    }, 1_000);
    return () => clearInterval(timer);
  }, []);
}

export const number = (value: number): string => new Intl.NumberFormat(locale()).format(value);

/** 1,234 → "1,234"; from `from` on short: "1.2M", in Chinese "120万". */
export function shortNumber(value: number, from = 100_000): string {
  if (value < from) return number(value);
  const english = language.value === 'zh' ? 'zh-CN' : 'en-US';
  return new Intl.NumberFormat(english, { notation: 'compact', maximumFractionDigits: 1 }).format(value);
}

export const zone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The given texts with dots between them. */
export const dots = (...texts: readonly (string | null | undefined | false)[]): string =>
  texts.filter(Boolean).join(' · ');

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** The two largest units: "4 min 49 s"; below 10 s with one digit; below 1 s in ms. */
export function duration(ms: number): string {
  const whole = Math.max(0, ms);
  if (whole < 1_000) return `${Math.round(whole)} ${t('unit_ms')}`;
  if (whole < 10_000) return `${(Math.floor(whole / 100) / 10).toString()} ${t('unit_s')}`;
  const at = units.findIndex(([, size]) => whole >= size);
  const [name, size] = units[at] ?? units[3];
  const first = `${Math.floor(whole / size)} ${t(`unit_${name}`)}`;
  const next = units[at + 1];
  const rest = next === undefined ? 0 : Math.floor((whole % size) / next[1]);
  return rest === 0 || next === undefined ? first : `${first} ${rest} ${t(`unit_${next[0]}`)}`;
}

/** The duration for a place that shows its unit apart; two units stay together. */
export function durationParts(ms: number): { readonly value: string; readonly unit?: string } {
  const text = duration(ms);
  const [value = '', unit, ...more] = text.split(' ');
  return unit === undefined || more.length > 0 ? { value: text } : { value, unit };
}

/** "in 4 min 49 s", "2 min ago" or "just now", by the daemon's clock. */
export function relative(epochMs: number): string {
  const ms = epochMs - daemonNow();
  if (ms <= 0 && ms > -1_000) return t('just_now');
  return t(ms >= 0 ? 'in_time' : 'time_ago', { time: duration(Math.abs(ms)) });
}

/** 14:37:09 today, else 19 Nov 14:37. */
export function clock(epochMs: number): string {
  const date = new Date(epochMs);
  const isToday = date.toDateString() === new Date(daemonNow()).toDateString();
  const time = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
  if (isToday) return new Intl.DateTimeFormat(locale(), { ...time, second: '2-digit' }).format(date);
  const sameYear = date.getFullYear() === new Date(daemonNow()).getFullYear();
  return new Intl.DateTimeFormat(locale(), {
    ...time,
    day: 'numeric',
    month: 'short',
    ...(sameYear ? {} : { year: 'numeric' }),
  }).format(date);
}

/** In a zone, with day and weekday: Mon 23 Nov 2026, 14:37:09. UTC if the browser does not know the zone. */
export function zoneClock(epochMs: number, timeZone: string): string {
  const parts = {
    ...({ weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' } as const),
    ...({ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const),
  };
  try {
    return new Intl.DateTimeFormat(locale(), { ...parts, timeZone }).format(epochMs);
  } catch {
    return utc(epochMs);
  }
}

/** With milliseconds: 14:37:09.311 today, else with its day. */
export function preciseClock(epochMs: number): string {
  const isToday = new Date(epochMs).toDateString() === new Date(daemonNow()).toDateString();
  if (!isToday) return exactClock(epochMs);
  return `${clock(epochMs)}.${String(Math.floor(epochMs) % 1_000).padStart(3, '0')}`;
}

/** 2026-11-22 14:37:09.311 UTC */
export const utc = (epochMs: number): string =>
  new Date(epochMs).toISOString().replace('T', ' ').replace('Z', ' UTC');

/** On an axis: 14:37, or 19 Nov for a range of days. */
export function axisClock(epochMs: number, isLong: boolean): string {
  const parts = isLong
    ? ({ day: 'numeric', month: 'short' } as const)
    : ({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const);
  return new Intl.DateTimeFormat(locale(), parts).format(new Date(epochMs));
}

/** 0.9807 → "98.07"; two digits only near 100 %. */
export function percent(part: number): string {
  const digits = part > 0.9 && part < 1 ? 2 : 1;
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(100 * part);
}

/** With milliseconds: 22 Nov 14:21:00.000. */
export function exactClock(epochMs: number): string {
  return new Intl.DateTimeFormat(locale(), {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
    hourCycle: 'h23',
  }).format(new Date(epochMs));
}

const sizes = ['KiB', 'MiB', 'GiB', 'TiB'] as const;

/** "512 bytes", "4.0 KiB", "1.6 GiB" */
export function bytes(count: number): string {
  if (count < 1024) return t('bytes', { count: number(count) });
  const at = Math.min(Math.floor(Math.log2(count) / 10), sizes.length) - 1;
  const value = count / 1024 ** (at + 1);
  return `${value < 100 ? value.toFixed(1) : Math.round(value)} ${sizes[at]}`;
}

/** "3d" of the API as all times of the page: "3 d" */
export function spoken(text: string): string {
  const ms = durationMs(text);
  if (ms === null) return text;
  return ms === 0 ? `0 ${t('unit_s')}` : duration(ms);
}
