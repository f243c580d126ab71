// The trial of the console: one topic, and a receiver on a free port of the loopback address. Callbacks of
// this topic to this receiver pass the egress policy while the trial runs; nothing else does.

export const trial = {
  topic: 'trial.hello',
  /** of the receiver */
  address: '127.0.0.1',
} as const;

/** Origin of the receiver: http://127.0.0.1:41877 */
export function trialOrigin(port: number): string {
  return `http://${trial.address}:${port}`;
}
