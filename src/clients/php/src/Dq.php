<?php

declare(strict_types=1);

namespace Dq;

/**
 * The client of dq: pushes and cancels jobs, verifies callbacks, pulls jobs.
 * Invariant: a push has its id before its first try, and mode=keep, so that every try can be repeated.
 */
final class Dq
{
    private ?\CurlHandle $curl = null;
    /** of the process that opened the connection: a fork must not share it */
    private int $pid = 0;
    private bool $isStopped = false;
    /** keep-leases.php: its process and its input */
    private ?array $keeper = null;

    /** @param float $patience seconds in which a failed call is repeated */
    public function __construct(private string $url, private ?string $token = null, private float $patience = 30.0)
    {
        $this->url = rtrim($url, '/');
    }

    /**
     * Returns when the job is stored. Text is sent as it is, any other body as JSON.
     * @param array $options the query parameters of a push; contentType, of text; traceparent, tracestate
     */
    public function push(string $topic, mixed $body, array $options = []): array
    {
        $type = is_string($body) ? $options['contentType'] ?? '' : 'application/json';
        $trace = array_map(fn($name) => "$name: " . ($options[$name] ?? ''), ['traceparent', 'tracestate']);
        $text = fn($value) => $value instanceof \DateTimeInterface ? $value->format('Y-m-d\TH:i:s.vP') : $value;
        $query = array_map(fn($value) => $value === true ? 'true' : $text($value), $options);
        $query += ['id' => self::uuid7(), 'mode' => 'keep'];
        unset($query['contentType'], $query['traceparent'], $query['tracestate']);
        $path = '/v1/topics/' . rawurlencode($topic) . '/jobs?' . http_build_query($query, '', '&', PHP_QUERY_RFC3986);
        $bytes = is_string($body) ? $body : self::encode($body);
        return $this->call('POST', $path, $bytes, ["content-type: $type", ...$trace])[0];
    }

    /** Removes a job in any state. inFlight: an attempt runs, and may still arrive. */
    public function cancel(string $topic, string $id): array
    {
        try {
            return $this->call('DELETE', '/v1/topics/' . rawurlencode($topic) . '/jobs/' . rawurlencode($id))[0];
        } catch (DqError $error) {
            // Also the repeat of a cancel whose answer was lost.
            $isGone = $error->problem === 'job_not_found';
            return $isGone ? ['cancelled' => false, 'inFlight' => false] : throw $error;
        }
    }

    /** The JSON of a GET route, such as `/v1/topics/T/jobs/ID`. The token needs the scope read. */
    public function read(string $path): array
    {
        return $this->call('GET', $path)[0];
    }

    /**
     * Due jobs, which the caller acks or nacks.
     * @param array $options max; wait, in seconds; lease, such as '5m'
     * @return Job[]
     */
    public function take(string|array $topics, array $options = [], array $call = ['patience' => 0]): array
    {
        $wait = $options['wait'] ?? 0;
        $body = ['topics' => (array) $topics, 'wait' => "{$wait}s"] + $options;
        [$reply, $at] = $this->callJson('/v1/pull', $body, ['wait' => $wait] + $call);
        return array_map(function (array $item) use ($at): Job {
            $item['body'] ??= base64_decode($item['bodyBase64']);
            unset($item['bodyBase64']);
            $leaseSeconds = max(1, (new \DateTimeImmutable($item['leaseUntil']))->getTimestamp() - $at);
            return new Job(...$item, leaseSeconds: $leaseSeconds);
        }, $reply['items']);
    }

    public function ack(Job $job): void
    {
        $this->callJson('/v1/leases/ack', ['leases' => [$job->lease]] + $job->resultMember());
    }

    /** @param array $answer reason, delay, dead; or release alone */
    public function nack(Job $job, array $answer = []): void
    {
        if (isset($answer['reason'])) {
            $text = json_decode(json_encode($answer['reason'], JSON_INVALID_UTF8_SUBSTITUTE));
            preg_match('/^.{0,200}/us', $text, $start);
            $answer['reason'] = $start[0];
        }
        $this->callJson('/v1/leases/nack', ['leases' => [$job->lease]] + $answer);
    }

    /** @param string[] $leases they end after so many seconds from now on */
    public function extend(array $leases, int $seconds): void
    {
        $body = ['leases' => $leases, 'for' => "{$seconds}s"];
        $this->callJson('/v1/leases/extend', $body, ['patience' => $seconds / 2]);
    }

    /**
     * Calls $work for each due job, extends its lease meanwhile, acks it, or nacks it when $work throws. Waits for a
     * dq that does not answer; throws when dq rejects a pull. Returns after SIGTERM or SIGINT: the job that runs
     * finishes, others are released.
     * @param callable(Job): mixed $work
     * @param array $options lease; max, jobs of one call, default 1; onError, a callable(\Throwable, ?Job)
     */
    public function pull(string|array $topics, callable $work, array $options = []): void
    {
        $onError = $options['onError'] ?? fn(\Throwable $error) => error_log((string) $error);
        unset($options['onError']);
        $this->isStopped = false;
        $restore = $this->stopAtSignals();
        try {
            while (!$this->isStopped) {
                $call = ['patience' => INF, 'onRepeat' => $onError, 'stops' => true];
                $jobs = $this->take($topics, $options + ['max' => 1, 'wait' => 30], $call);
                while ($jobs !== []) {
                    $this->keep($jobs);
                    $job = array_shift($jobs);
                    $nack = $this->isStopped ? ['release' => true] : $this->finish($job, $work, $onError);
                    try {
                        $nack === null ? $this->ack($job) : $this->nack($job, $nack);
                    } catch (DqError $error) {
                        $onError($error, $job);
                        $nack === null && $error->status === 413 && $this->failAck($job, $error, $onError);
                    }
                }
                $this->keep([]);
            }
        } catch (DqError $error) {
            $error->problem === 'stopped' || throw $error;
        } finally {
            $keeper = $this->keeper['process'] ?? null;
            $keeper && proc_terminate($keeper, 9) && proc_close($keeper); // it may wait for dq
            $this->keeper = null;
            $restore();
        }
    }

    /** What to nack with, or null. */
    private function finish(Job $job, callable $work, callable $onError): ?array
    {
        try {
            $work($job);
            self::encode($job->result); // An invalid one is a failure of the work.
            return null;
        } catch (Nack $nack) {
            return $nack->answer + (isset($nack->answer['release']) ? [] : ['reason' => $nack->getMessage()]);
        } catch (\Throwable $error) {
            $onError($error, $job);
            return ['reason' => $error->getMessage()];
        }
    }

    /** A result that is too large is a failure of the work. */
    private function failAck(Job $job, DqError $rejection, callable $onError): void
    {
        try {
            $this->nack($job, ['reason' => $rejection->getMessage()]);
        } catch (DqError $error) {
            $onError($error, $job);
        }
    }

    /**
     * A process of its own extends these leases: PHP does one thing at a time. It ends with its input.
     * @param Job[] $jobs
     */
    private function keep(array $jobs): void
    {
        if ($this->keeper === null) {
            $this->curl = null; // The process would inherit the connection, and hold it open when this one ends.
            $process = proc_open([PHP_BINARY, __DIR__ . '/keep-leases.php'], [['pipe', 'r']], $pipes);
            $this->keeper = ['process' => $process, 'input' => $pipes[0]];
            fwrite($pipes[0], self::encode([$this->url, $this->token]) . "\n");
        }
        $seconds = $jobs === [] ? 0 : min(array_column($jobs, 'leaseSeconds'));
        fwrite($this->keeper['input'], self::encode([array_column($jobs, 'lease'), $seconds]) . "\n");
    }

    /** Returns what restores the handlers. */
    private function stopAtSignals(): callable
    {
        if (!function_exists('pcntl_signal')) {
            return fn() => null;
        }
        pcntl_async_signals(true);
        $signals = [SIGTERM, SIGINT];
        $handlers = array_map('pcntl_signal_get_handler', $signals);
        array_map(fn(int $signal) => pcntl_signal($signal, fn() => $this->isStopped = true), $signals);
        return fn() => array_map('pcntl_signal', $signals, $handlers);
    }

    private function callJson(string $path, array $body, array $call = []): array
    {
        return $this->call('POST', $path, self::encode($body), ['content-type: application/json'], $call);
    }

    /**
     * Repeats what may succeed later, as long as `patience`. Returns the JSON, and the time of dq in seconds.
     * $call: patience; wait, seconds that dq may wait; stops, at a signal while no answer has begun; onRepeat.
     */
    private function call(string $method, string $path, string $body = '', array $headers = [], array $call = []): array
    {
        $end = hrtime(true) / 1e9 + ($call['patience'] ?? $this->patience);
        for ($pause = 0.05;; $pause = min($pause * 2, 5.0)) {
            try {
                return $this->try($method, $path, $body, $headers, $call);
            } catch (DqError $error) {
                $wait = max($error->repeatAfter ?? 0, $pause * mt_rand(500, 1000) / 1000);
                if ($error->repeatAfter === null || hrtime(true) / 1e9 + $wait > $end) {
                    throw $error;
                }
                $pause === 0.05 && isset($call['onRepeat']) && $call['onRepeat']($error, null);
                usleep((int) ($wait * 1e6)); // a signal ends it early
            }
        }
    }

    private function try(string $method, string $path, string $body, array $headers, array $call): array
    {
        $this->curl = ($this->pid === getmypid() ? $this->curl : null) ?? curl_init();
        $this->pid = getmypid();
        $answer = new \ArrayObject();
        $bearer = $this->token === null ? '' : "Bearer $this->token";
        $isOver = fn(): bool => ($call['stops'] ?? false) && $this->isStopped && count($answer) === 0;
        curl_reset($this->curl);
        curl_setopt_array($this->curl, [
            CURLOPT_URL => $this->url . $path,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => [...$headers, 'expect:', "authorization: $bearer"],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 10 + ($call['wait'] ?? 0),
            CURLOPT_NOSIGNAL => true,
            CURLOPT_HEADERFUNCTION => function ($curl, string $line) use ($answer): int {
                $answer[strtolower((string) strtok($line, ':'))] = trim((string) strtok(''));
                return strlen($line);
            },
            // About once a second: at a signal it ends the call, unless the answer has begun, which can hold a job.
            CURLOPT_NOPROGRESS => false,
            CURLOPT_PROGRESSFUNCTION => fn(): int => (int) $isOver(),
        ] + ($method === 'POST' ? [CURLOPT_POSTFIELDS => $body] : []));
        $text = $isOver() ? false : curl_exec($this->curl);
        if ($text === false && $isOver()) {
            throw new DqError('stopped', 'the call was stopped');
        }
        $status = curl_getinfo($this->curl, CURLINFO_RESPONSE_CODE);
        $json = json_decode((string) $text, true);
        if ($text === false || ($status < 300 && !is_array($json))) {
            throw new DqError('unreachable', 'no answer of dq: ' . curl_error($this->curl), 0, 0);
        }
        // A failed lease counts as a failed call.
        $problem = ['status' => $status] + (array) $json;
        foreach (str_starts_with($path, '/v1/leases/') ? $problem['results'] ?? [] : [] as $result) {
            $problem = $result['status'] > $problem['status'] ? $result : $problem;
        }
        if ($problem['status'] < 300) {
            return [$json, strtotime($answer['date'] ?? 'now')];
        }
        $after = $answer['retry-after'] ?? '0';
        $seconds = is_numeric($after) ? (float) $after : (float) strtotime($after) - time();
        $repeatAfter = in_array($problem['status'], [502, 503, 504], true) ? $seconds : null;
        $code = $problem['code'] ?? "status_{$problem['status']}";
        throw new DqError($code, $problem['detail'] ?? $code, $problem['status'], $repeatAfter);
    }

    /**
     * Returns webhookId, topic, id and attempt of a callback; throws `bad_signature` when it is not from dq. The
     * signature covers the body and webhookId, the key against duplicates; the others are plain headers.
     * @param array $headers as of getallheaders(), $_SERVER or a PSR-7 request
     * @param string $body the raw bytes: file_get_contents('php://input')
     * @param string $secret whsec_…
     */
    public static function verify(array $headers, string $body, string $secret): array
    {
        $given = [];
        foreach ($headers as $name => $value) {
            $name = preg_replace('/^http-/', '', strtr(strtolower((string) $name), '_', '-'));
            $given[$name] = is_array($value) ? implode(',', $value) : (string) $value;
        }
        [$id, $time] = [$given['webhook-id'] ?? '', $given['webhook-timestamp'] ?? ''];
        if (!preg_match('/^\d{1,12}$/D', $time) || abs(time() - (int) $time) > 300) {
            throw new DqError('bad_signature', 'webhook-timestamp is not within 5 minutes from now');
        }
        $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
        $key = $key ?: throw new \ValueError('secret: not whsec_ and base64');
        $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));
        $signatures = explode(' ', $given['webhook-signature'] ?? '');
        if (array_filter($signatures, fn(string $signature) => hash_equals($expected, $signature)) === []) {
            throw new DqError('bad_signature', 'no signature matches the secret');
        }
        [$jobId, $attempt] = [rawurldecode($given['dq-job-id'] ?? ''), (int) ($given['dq-attempt'] ?? 0)];
        return ['webhookId' => $id, 'topic' => $given['dq-topic'] ?? '', 'id' => $jobId, 'attempt' => $attempt];
    }

    private static function encode(mixed $value): string
    {
        return json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
    }

    /** The time in ms, and random bits. */
    private static function uuid7(): string
    {
        $hex = sprintf('%012x', (int) (microtime(true) * 1000)) . bin2hex(random_bytes(10));
        $hex[12] = '7';
        $hex[16] = '89ab'[hexdec($hex[16]) % 4];
        return preg_replace('/^(.{8})(.{4})(.{4})(.{4})(.{12})$/', '$1-$2-$3-$4-$5', $hex);
    }
}
