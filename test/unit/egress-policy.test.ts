// All known spellings of addresses that bypass such checks, tested where dq checks: the URL at
// registration, the address at dial time.
import { describe, expect, it } from 'vitest';
import { createEgressPolicy, type EgressOptions, parseRange } from '../../src/core/egress-policy.ts';
import { words } from '../support/words.ts';

const defaults: EgressOptions = { policy: 'private', allow: [], deny: [], own: [], localAddresses: () => [] };
const policyOf = (options: Partial<EgressOptions> = {}) => createEgressPolicy({ ...defaults, ...options });
const atUrl = (url: string, options: Partial<EgressOptions> = {}) =>
  policyOf(options).refusesUrl(new URL(url));
const atDial = (address: string, options: Partial<EgressOptions> = {}, port = 80) =>
  policyOf(options).refuses(address, port);

/** Rejected under every policy. */
const metadataUrls = words`
  http://169.254.169.254/ http://169.254.169.254./ http://2852039166/ http://0xa9fea9fe/
  http://0xA9.0xFE.0xA9.0xFE/ http://0251.0376.0251.0376/ http://025177524776/ http://169.254.43518/
  http://169.16689662/ http://169.0xfe.0251.254/ http://１６９.２５４.１６９.２５４/ http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/
  http://169。254。169。254/ http://169.254.169.254%2e/ http://%31%36%39.254.169.254/
  http://[::ffff:169.254.169.254]/ http://[::ffff:a9fe:a9fe]/ http://[0:0:0:0:0:ffff:a9fe:a9fe]/
  http://[::169.254.169.254]/ http://[::a9fe:a9fe]/ http://[::ffff:0:a9fe:a9fe]/
  http://[64:ff9b::169.254.169.254]/ http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b:1::a9fe:a9fe]/
  http://[64:ff9b:1::]/ http://[64:ff9b:1:a9fe:a9:fe00::]/ http://[64:ff9b:1:a9:fe:a9fe::]/
  http://[64:ff9b:1:0:a9:fea9:fe00:0]/ http://[2002:a9fe:a9fe::1]/ http://[2001:0:a9fe:a9fe::1]/
  http://[2001:0:808:808:0:0:5601:5601]/ http://[fe80::1]/ http://[FEBF::1]/ http://[fd00:ec2::254]/
  http://[fd00:0ec2:0:0:0:0:0:0254]/ http://100.100.100.200/ http://[::ffff:100.100.100.200]/ http://0/
  http://0.0.0.0/ http://0.1.2.3/ http://[::]/ http://[::ffff:0.0.0.0]/ http://[2002::1]/ http://224.0.0.1/
  http://239.255.255.250/ http://[ff02::1]/ http://255.255.255.255/ http://4294967295/
  https://169.254.169.254:8443/latest/meta-data/
`;

/** Private networks and this machine: allowed by default, rejected under policy public. */
const privateUrls = words`
  http://127.0.0.1/ http://127.1/ http://127.0.1/ http://2130706433/ http://0x7f000001/ http://0x7f.1/
  http://017700000001/ http://0177.0.0.01/ http://１２７.０.０.１/ http://①②⑦.0.0.1/ http://127.0.0.1./
  http://[::1]/ http://[0:0:0:0:0:0:0:1]/ http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/
  http://[::127.0.0.1]/ http://[64:ff9b::7f00:1]/ http://[2002:7f00:1::]/ http://localhost/
  http://localhost./ http://LOCALHOST:8080/ http://api.localhost/ http://10.0.0.1/ http://10.1/
  http://172.16.0.1/ http://172.31.255.255/ http://192.168.1.1/ http://0xc0a80101/ http://100.64.0.1/
  http://192.0.2.1/ http://198.18.0.1/ http://198.51.100.7/ http://203.0.113.7/ http://240.0.0.1/
  http://[fc00::1]/ http://[fd12:3456::1]/ http://[fec0::1]/ http://[2001:db8::1]/
  http://[::ffff:192.168.1.1]/ http://[::5]/ http://[100::1]/
`;

const publicUrls = words`
  http://8.8.8.8/ https://134744072/ http://100.63.255.255/ http://172.32.0.1/ http://[2606:4700::1111]/
  http://[64:ff9b::8.8.8.8]/ http://[64:ff9b:1::8.8.8.8]/ http://[64:ff9b:1:808:8:800::]/
  http://[64:ff9b:1:8:8:808::]/ http://[2002:808:808::1]/ http://[::ffff:8.8.8.8]/ http://xn--fiqs8s/
  http://127.0.0.1.nip.io/
`;

describe('egress policy', () => {
  it.each(metadataUrls)('rejects %s under every policy', (url) => {
    expect(atUrl(url)).not.toBeNull();
    expect(atUrl(url, { policy: 'public' })).not.toBeNull();
    expect(atUrl(url, { policy: 'allowlist', allow: ['10.0.0.0/8'] })).not.toBeNull();
  });

  it.each(privateUrls)(
    'allows %s by default and rejects it where only public addresses may be called',
    (url) => {
      expect(atUrl(url)).toBeNull();
      expect(atUrl(url, { policy: 'public' })).not.toBeNull();
    },
  );

  it.each(publicUrls)('allows %s under policy public', (url) => {
    expect(atUrl(url, { policy: 'public' })).toBeNull();
  });

  it.each(words`
    169.254.169.254 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: fe80::1%eth0
    fe80::1%25eth0 100.100.100.200 fd00:ec2::254%1 0.0.0.0 :: 255.255.255.255
  `)('rejects dialling %s', (address) => {
    expect(atDial(address)).not.toBeNull();
  });

  it.each([
    '',
    ...words`example.test 127.1 0177.0.0.1 0x7f.0.0.1 2130706433 127.0.0.1.`,
    ' 127.0.0.1',
    ...words`256.1.1.1 1.2.3.4:80 ::ffff:999.1.1.1 [::1] :::1 １２７.0.0.1`,
  ])('rejects %j at dial time as an invalid address', (address) => {
    expect(atDial(address)).toBe('not an IP address');
  });

  it('allow: allows exactly its ranges', () => {
    expect(atDial('169.254.169.254', { allow: ['169.254.169.254'] })).toBeNull();
    expect(atDial('169.254.169.253', { allow: ['169.254.169.254'] })).not.toBeNull();
    expect(atDial('fe80::1%eth0', { allow: ['fe80::/10'] })).toBeNull();
    expect(atDial('10.9.8.7', { policy: 'allowlist', allow: ['10.0.0.0/8'] })).toBeNull();
    expect(atDial('11.0.0.1', { policy: 'allowlist', allow: ['10.0.0.0/8'] })).not.toBeNull();
    expect(atDial('10.9.8.7', { policy: 'public', allow: ['10.0.0.0/8'] })).toBeNull();
    expect(atDial('::ffff:10.9.8.7', { policy: 'public', allow: ['10.0.0.0/8'] })).toBeNull();
    expect(atDial('64:ff9b::10.9.8.7', { policy: 'public', allow: ['10.0.0.0/8'] })).toBeNull();
  });

  it('allow: a range of carriers does not allow their IPv4 addresses', () => {
    expect(atDial('64:ff9b::169.254.169.254', { allow: ['64:ff9b::/96'] })).not.toBeNull();
    expect(atDial('2002:7f00:1::', { policy: 'public', allow: ['2002::/16'] })).not.toBeNull();
  });

  it('deny: overrides allow in both forms of an address', () => {
    const options = { allow: ['0.0.0.0/0', '::/0'], deny: ['10.1.0.0/16', '64:ff9b::/96'] };
    expect(atDial('10.2.0.1', options)).toBeNull();
    expect(atDial('10.1.0.1', options)).not.toBeNull();
    expect(atDial('::ffff:10.1.0.1', options)).not.toBeNull();
    expect(atDial('64:ff9b::8.8.8.8', options)).not.toBeNull();
    expect(atDial('2002:a01:1::', options)).not.toBeNull();
    expect(atDial('2002:a02:1::', options)).toBeNull();
  });

  it('own endpoints: rejected by address and port, even inside allow', () => {
    const options = { own: [{ address: '127.0.0.1', port: 6789 }], allow: ['0.0.0.0/0', '127.0.0.0/8'] };
    expect(atDial('127.0.0.1', options, 6789)).not.toBeNull();
    expect(atDial('::ffff:127.0.0.1', options, 6789)).not.toBeNull();
    expect(atDial('0.0.0.0', options, 6789)).not.toBeNull();
    expect(atDial('127.0.0.1', options, 6790)).toBeNull();
    expect(atUrl('http://127.1:6789/x', options)).not.toBeNull();
    expect(atUrl('http://localhost.:6789/x', options)).not.toBeNull();
    expect(atUrl('https://127.0.0.1/', { own: [{ address: '127.0.0.1', port: 443 }] })).not.toBeNull();
    expect(atUrl('http://127.0.0.1/', { own: [{ address: '127.0.0.1', port: 80 }] })).not.toBeNull();
  });

  it.each(['0.0.0.0', '::', 'this.machine.test'])(
    'own endpoints: %s means every address of this machine',
    (address) => {
      const options = { own: [{ address, port: 6789 }], localAddresses: () => ['10.0.0.5', 'fd12::5'] };
      for (const local of ['127.0.0.1', '127.9.9.9', '::1', '10.0.0.5', '::ffff:10.0.0.5', 'fd12:0::5'])
        expect(atDial(local, options, 6789)).not.toBeNull();
      expect(atDial('10.0.0.6', options, 6789)).toBeNull();
      expect(atDial('10.0.0.5', options, 6788)).toBeNull();
    },
  );
});

describe('egress ranges', () => {
  it.each(['10.0.0.0/8', '10.1.2.3/8', '1.2.3.4', '::/0', 'fd00::/8', '::1', '::ffff:10.0.0.1'])(
    'reads %s',
    (text) => {
      expect(parseRange(text).ok).toBe(true);
    },
  );
  it.each([
    '',
    ...words`10/8 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/ 10.0.0.0/8/8 fd00::/129 example.test 010.0.0.0/8`,
  ])('rejects %j', (text) => {
    expect(parseRange(text).ok).toBe(false);
    expect(() => policyOf({ deny: [text] })).toThrow(/^range /);
  });
});
