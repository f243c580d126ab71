// Fixed limits of the helpers, each with its reason.

export const runtimeLimits = {
  /** An address that does not answer for so long gets company: RFC 8305, 5 ("Connection Attempt Delay"). */
  dialStaggerMs: 250,
  /** Addresses of a name that a dial tries: with the stagger more than fit into the time of any dial, unless
   *  most of them fail at once. */
  dialAddressesMax: 64,
  /** Addresses that a failure names. */
  dialTriesShown: 4,
  /** ms of silence before TCP asks whether the peer is there; undici's default. */
  dialKeepAliveMs: 60_000,
  /** Bytes of a file of authorities: that of a Linux distribution, with all public ones, has 0.3 MB. */
  authoritiesBytesMax: 16 * 1024 * 1024,
  /** Longest reply of dq's own API: a job body of 16 MiB as base64, or escaped twice. */
  replyBytesMax: 64 * 1024 * 1024,
} as const;
