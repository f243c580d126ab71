<?php

declare(strict_types=1);

namespace Dq\Laravel;

use Dq\Dq;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;

/**
 * A Laravel queue in dq: a queue name is a topic that clients pull.
 * Laravel counts the attempts and chooses the waits between them, so a push allows as many as dq can count.
 */
final class DqQueue extends Queue implements QueueContract
{
    /** @param array $config queue, retry_after, block_for, max_attempts, after_commit */
    public function __construct(private Dq $dq, private array $config)
    {
        $this->dispatchAfterCommit = $config['after_commit'] ?? false;
    }

    public function size($queue = null): int
    {
        $counts = $this->counts($queue);
        return $counts['ready'] + $counts['delayed'] + $counts['reserved'];
    }

    public function pendingSize($queue = null): int
    {
        return $this->counts($queue)['ready'];
    }

    public function delayedSize($queue = null): int
    {
        return $this->counts($queue)['delayed'];
    }

    public function reservedSize($queue = null): int
    {
        return $this->counts($queue)['reserved'];
    }

    /** dq does not tell it. */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        return null;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->later(0, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->topic($queue), $data);
        $options = fn($delay) => ['delay' => "{$this->secondsUntil($delay)}s"];
        $push = fn($payload, $queue, $delay) => $this->pushRaw($payload, $queue, $options($delay));
        return $this->enqueueUsing($job, $payload, $queue, $delay, $push);
    }

    /** @param array $options of Dq::push() */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        $options += ['delay' => '0s', 'contentType' => 'application/json'];
        $options += ['maxAttempts' => $this->config['max_attempts'] ?? 100];
        return $this->dq->push($this->topic($queue), $payload, $options)['id'];
    }

    public function bulk($jobs, $data = '', $queue = null): void
    {
        foreach ((array) $jobs as $job) {
            $this->later(is_object($job) ? $job->delay ?? 0 : 0, $job, $data, $queue);
        }
    }

    public function pop($queue = null)
    {
        $topic = $this->topic($queue);
        $options = ['lease' => ($this->config['retry_after'] ?? 90) . 's', 'wait' => $this->config['block_for'] ?? 0];
        foreach ($this->dq->take($topic, $options) as $job) {
            return new DqJob($this->container, $this->dq, $job, $this->connectionName, $topic);
        }
        return null;
    }

    private function counts(?string $queue): array
    {
        return array_column($this->dq->read('/v1/stats')['topics'], 'states', 'topic')[$this->topic($queue)];
    }

    private function topic(?string $queue): string
    {
        return $queue ?: $this->config['queue'] ?? 'default';
    }
}
