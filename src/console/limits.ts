// Fixed limits of the console: bounds that users cannot configure, each with its reason.

export const consoleLimits = {
  /** Failed sign-ins of one address in a minute: enough for a person with a wrong token. */
  failedSignInsPerMinute: 10,
  /** Addresses whose failures are counted at once: 100 KB. */
  signInAddressesMax: 1_000,
  /** Free ports that are tried: between finding one and opening it, another program may take it. */
  freePortTries: 10,
} as const;
