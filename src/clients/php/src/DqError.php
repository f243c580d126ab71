<?php

declare(strict_types=1);

namespace Dq;

/**
 * A failed call. `problem` is the code of dq; `unreachable`, with the status 0, without an answer of dq;
 * `bad_signature` from Dq::verify().
 */
final class DqError extends \RuntimeException
{
    /** @param float|null $repeatAfter seconds after which a repeat can succeed; null: it would fail again */
    public function __construct(
        public string $problem,
        string $message,
        public int $status = 0,
        public ?float $repeatAfter = null,
    ) {
        parent::__construct($message);
    }
}
