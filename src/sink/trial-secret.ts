// The public secret `trial` of `dq topic add` and `dq sink`: a first trial verifies signatures without
// copying a secret. It protects nothing, so only topics with callbacks to this machine may have it.

export const trialWord = 'trial';

export const trialSecret = `whsec_${Buffer.from('dq trial secret, known to all').toString('base64')}`;

/** Whether the callback stays on this machine: a loopback address or localhost; other names may lead
 *  anywhere. */
export function isLocalCallback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const host = new URL(url).hostname;
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
