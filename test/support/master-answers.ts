// Answers of a master for tests that call every route: no process, no metrics, no reload, no option.
import type { ToMaster, ToWorker } from '../../src/process/messages.ts';

export function answerAsMaster(message: ToMaster, answer: (message: ToWorker) => void): void {
  const { kind } = message;
  if (kind === 'processes') answer({ kind, call: message.call, processes: [] });
  if (kind === 'scrape') answer({ kind, call: message.call, text: '' });
  if (kind === 'ask') answer({ kind: 'answers', call: message.call, answers: [] });
  if (kind === 'config')
    answer({ kind, call: message.call, config: { file: null, problem: null, items: [] } });
  const reload = { running: null, waiting: false, last: null, generation: 1, restart: null };
  if (kind === 'reload') answer({ kind, call: message.call, reload });
}
