// What to do where jobs of a topic wait, in the words of this page, for the reasons whose own sentence names
// a command or a call. A test finds those that lack a text.

import type { CapacityReason } from '../../../core/capacity-reasons.ts';

export const enServer = {
  remedy_unknown_topics: 'Check the registry: run the doctor',
  remedy_unknown_topic: 'Register the topic. A new one is known everywhere within 2 s',
  remedy_unreadable_topic: 'Write the topic again, or delete it. The error log names the cause',
  remedy_pulled: 'Start a client that pulls them',
  remedy_unknown_broker: 'Add it to brokers and reload dq, or change the broker of the topic',
  remedy_cannot_be_called: 'Change the settings of the topic. Its jobs are held until then',
  remedy_paused: 'Resume the topic',
  remedy_offline: 'Resume the topic',
  remedy_rate_reached: 'Wait, or raise the rate (0 = no limit)',
  remedy_half_of_slots:
    'Make the receiver answer faster. Where a test call answers in time, raise notifier.slots or notifier.workers',
  remedy_concurrency_reached:
    'Make the receiver answer faster. Where a test call answers in time, raise the concurrency',
  remedy_slowed_down: 'Wait. To avoid it, set the rate that the receiver takes',
  remedy_ailing: 'One success lifts this. A test call makes a call now',
  remedy_origin_ailing:
    'Bring the server of the callback URL, or the broker, back, or correct the address. One reply lifts this. A test call makes a call now',
  remedy_settling: 'Check the store: run the doctor',
  remedy_store_unavailable: 'Check the store: run the doctor',
  remedy_healing: 'Wait. The screen Store shows the restore',
  remedy_standby: 'Wait. The screen Processes shows the generations',
  remedy_no_ready_job: 'A delayed job is called when it is due, and dead letters when they are requeued',
  remedy_not_promoted: 'The screen Processes shows the process',
  remedy_no_notifier: 'The screen Processes shows them. The error log names the cause',
  remedy_no_caller: 'The screen Processes shows them. The error log names the cause',
} satisfies Partial<Record<`remedy_${CapacityReason['code']}`, string>>;
