// Fixed limits of the connections to brokers, each with its reason.

export const brokerLimits = {
  /** A broker that has not accepted the connection by then, or the login after it, fails the waiting
   *  publications; as notifierLimits.connectMsMax. */
  openMsMax: 10_000,
  /** Both sides send a heartbeat at least this often. A broker that stops answering is noticed after two:
   *  longer than a pause of its garbage collector, shorter than the longest timeout of a topic. */
  heartbeatMs: 10_000,
  /** Channels or links of one connection: one per target or address, so that an error of one ends no other.
   *  RabbitMQ allows 2,047. Idle ones make way for new ones. */
  channelsMax: 500,
  /** Time that a closing connection has to say goodbye. */
  closeMsMax: 1_000,
} as const;
