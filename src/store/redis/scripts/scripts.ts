// Composes the scripts: the shebang of a file of lua/, the numbers and names that both sides share, the
// shared parts that its `@include` names, in that order, and the file itself. Every script except mark begins
// with frame, and reads the storage clock only through clock.

import { limits } from '../../../core/limits.ts';
import { buryReasonCodes } from '../../../core/stored-codes.ts';
import { tickIdPrefix } from '../../../core/tick-id.ts';
import { redisLimits } from '../limits.ts';
import ack from './lua/ack.lua';
import advance from './lua/advance.lua';
import alertClaim from './lua/alert-claim.lua';
import alertDue from './lua/alert-due.lua';
import alertList from './lua/alert-list.lua';
import alertSettle from './lua/alert-settle.lua';
import alertState from './lua/alert-state.lua';
import bury from './lua/bury.lua';
import cancel from './lua/cancel.lua';
import countQuarantined from './lua/count-quarantined.lua';
import counts from './lua/counts.lua';
import countsOf from './lua/counts-of.lua';
import deadExpire from './lua/dead-expire.lua';
import deadLast from './lua/dead-last.lua';
import deadList from './lua/dead-list.lua';
import deadPurge from './lua/dead-purge.lua';
import deadRequeue from './lua/dead-requeue.lua';
import edit from './lua/edit.lua';
import examine from './lua/examine.lua';
import extend from './lua/extend.lua';
import get from './lua/get.lua';
import historyForget from './lua/history-forget.lua';
import historyGet from './lua/history-get.lua';
import horizon from './lua/horizon.lua';
import ids from './lua/ids.lua';
import lacks from './lua/lacks.lua';
import look from './lua/look.lua';
import mark from './lua/mark.lua';
import marks from './lua/marks.lua';
import moment from './lua/moment.lua';
import moving from './lua/moving.lua';
import position from './lua/position.lua';
import promote from './lua/promote.lua';
import purgeTopic from './lua/purge-topic.lua';
import push from './lua/push.lua';
import raiseList from './lua/raise-list.lua';
import recover from './lua/recover.lua';
import recoverOwners from './lua/recover-owners.lua';
import release from './lua/release.lua';
import releaseUnheld from './lua/release-unheld.lua';
import relink from './lua/relink.lua';
import requeue from './lua/requeue.lua';
import reschedule from './lua/reschedule.lua';
import reserve from './lua/reserve.lua';
import restTopics from './lua/rest-topics.lua';
import restore from './lua/restore.lua';
import retry from './lua/retry.lua';
import run from './lua/run.lua';
import scan from './lua/scan.lua';
import searchEnded from './lua/search-ended.lua';
import searchId from './lua/search-id.lua';
import searchLive from './lua/search-live.lua';
import alerts from './lua/shared/alerts.lua';
import clock from './lua/shared/clock.lua';
import dead from './lua/shared/dead.lua';
import ends from './lua/shared/ends.lua';
import frame from './lua/shared/frame.lua';
import healing from './lua/shared/healing.lua';
import holds from './lua/shared/holds.lua';
import jobs from './lua/shared/jobs.lua';
import leases from './lua/shared/leases.lua';
import list from './lua/shared/list.lua';
import moves from './lua/shared/moves.lua';
import numbers from './lua/shared/numbers.lua';
import outcomes from './lua/shared/outcomes.lua';
import overdue from './lua/shared/overdue.lua';
import owners from './lua/shared/owners.lua';
import places from './lua/shared/places.lua';
import quarantine from './lua/shared/quarantine.lua';
import queues from './lua/shared/queues.lua';
import strikes from './lua/shared/strikes.lua';
import topics from './lua/shared/topics.lua';
import wheel from './lua/shared/wheel.lua';
import whole from './lua/shared/whole.lua';
import walk from './lua/walk.lua';

const files = {
  mark,
  push,
  get,
  cancel,
  run,
  reschedule,
  requeue,
  edit,
  promote,
  reserve,
  ack,
  retry,
  bury,
  release,
  extend,
  recover,
  recoverOwners,
  releaseUnheld,
  searchLive,
  searchEnded,
  searchId,
  deadList,
  deadRequeue,
  deadPurge,
  deadExpire,
  historyGet,
  historyForget,
  alertDue,
  alertClaim,
  alertSettle,
  alertList,
  alertState,
  counts,
  countsOf,
  purgeTopic,
  examine,
  relink,
  raiseList,
  restTopics,
  countQuarantined,
  ids,
  moment,
  position,
  scan,
  horizon,
  deadLast,
  restore,
  look,
  marks,
  advance,
  lacks,
  walk,
  moving,
} as const;

export type ScriptName = keyof typeof files;
export const scriptNames = Object.keys(files) as readonly ScriptName[];

const parts: Readonly<Record<string, string>> = {
  alerts,
  quarantine,
  clock,
  dead,
  ends,
  frame,
  healing,
  holds,
  jobs,
  leases,
  list,
  moves,
  numbers,
  outcomes,
  overdue,
  owners,
  places,
  queues,
  strikes,
  topics,
  wheel,
  whole,
};

const constants =
  () => `local limits = { attemptsKept = ${limits.attemptsKept}, strikesPoison = ${limits.strikesPoison},
  poison = ${buryReasonCodes.indexOf('poison')}, idBytesMax = ${limits.idBytesMax}, alertWindowMs = ${limits.alertWindowMsMax},
  pullLeasesMax = ${limits.pullLeasesMax}, pullLeaseMsMin = ${limits.pullLeaseMsMin},
  pullLeaseMsMax = ${limits.pullLeaseMsMax}, noteHoldMs = ${redisLimits.noteHoldMs} }
local function is_tick(tid) return tid:sub(1, ${1 + tickIdPrefix.length}) == '\\0${tickIdPrefix}' end\n`;

type Scripts = Readonly<Record<ScriptName, string>>;
let composed: Scripts | null = null;

/** `replaced`: other text for parts, for tests. Without it each call returns the same texts. Throws for an
 *  unknown part in an @include. */
export function composeScripts(replaced?: Readonly<Record<string, string>>): Scripts {
  if (replaced !== undefined) return composeWith(replaced);
  composed ??= composeWith({});
  return composed;
}

function composeWith(replaced: Readonly<Record<string, string>>): Scripts {
  const partOf = (name: string) => {
    const text = replaced[name] ?? parts[name];
    if (text === undefined) throw new Error(`unknown part of a script: ${name}`);
    return text;
  };
  const compose = (name: string, text: string) => {
    const [shebang = '', ...rest] = text.split('\n');
    const named = /^-- @include (.*)$/m.exec(text)?.[1]?.split(/,\s*/) ?? [];
    const included = name === 'mark' ? [] : ['frame', ...named].map(partOf);
    return [shebang, constants(), ...included, ...rest].join('\n');
  };
  return Object.fromEntries(
    Object.entries(files).map(([name, text]) => [name, compose(name, text)]),
  ) as unknown as Scripts;
}
