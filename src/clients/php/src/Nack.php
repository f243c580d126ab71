<?php

declare(strict_types=1);

namespace Dq;

/** Thrown by the work of Dq::pull(): how the attempt failed. */
final class Nack extends \RuntimeException
{
    /** @param array $answer `delay` => '10m'; `dead` => true: no further attempt; `release` => true: counts none */
    public function __construct(string $reason, public array $answer = [])
    {
        parent::__construct($reason);
    }
}
