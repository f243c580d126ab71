<?php

declare(strict_types=1);

namespace Dq\Laravel;

use Dq\Dq;
use Dq\Job as Pulled;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;

/** A job that a Laravel worker got from dq. A failed one becomes a dead letter of dq. */
final class DqJob extends Job implements JobContract
{
    private string $reason = 'failed';

    public function __construct(
        Container $container,
        private Dq $dq,
        private Pulled $job,
        string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    public function getJobId(): string
    {
        return $this->job->id;
    }

    public function getRawBody(): string
    {
        return $this->job->body;
    }

    public function attempts(): int
    {
        return $this->job->attempt;
    }

    /** Laravel deletes a job that is done, and one that has failed. */
    public function delete(): void
    {
        parent::delete();
        $this->hasFailed()
            ? $this->dq->nack($this->job, ['dead' => true, 'reason' => $this->reason])
            : $this->dq->ack($this->job);
    }

    /** Counts an attempt, as Laravel does. */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->dq->nack($this->job, ['delay' => "{$this->secondsUntil($delay)}s", 'reason' => 'released']);
    }

    public function fail($e = null): void
    {
        $this->reason = $e === null ? 'failed' : $e->getMessage();
        parent::fail($e);
    }
}
