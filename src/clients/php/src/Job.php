<?php

declare(strict_types=1);

namespace Dq;

/** A pulled job with its lease. */
final class Job
{
    /** The work sets it for the job of `onDone`: any JSON, at most 64 KiB. */
    public mixed $result = null;

    public function __construct(
        public string $topic,
        public string $id,
        public string $version,
        /** the same on all attempts of the job: the key against duplicates */
        public string $webhookId,
        public int $attempt,
        public int $maxAttempts,
        public string $dueAt,
        public string $createdAt,
        public string $lease,
        public string $leaseUntil,
        public ?string $contentType,
        /** the bytes as pushed */
        public string $body,
        /** seconds of the lease, whole, by the clock of dq */
        public int $leaseSeconds,
        public ?string $traceparent = null,
        public ?string $tracestate = null,
        mixed ...$membersOfLaterVersions,
    ) {
    }

    /** @internal of an ack */
    public function resultMember(): array
    {
        return $this->result === null ? [] : ['result' => $this->result];
    }

    /** The body, of JSON; objects are arrays. */
    public function json(): mixed
    {
        return json_decode($this->body, true, 512, JSON_THROW_ON_ERROR);
    }
}
