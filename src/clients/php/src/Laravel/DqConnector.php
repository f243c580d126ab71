<?php

declare(strict_types=1);

namespace Dq\Laravel;

use Dq\Dq;
use Illuminate\Queue\Connectors\ConnectorInterface;

/** Makes the queue of a connection with the driver `dq`. */
final class DqConnector implements ConnectorInterface
{
    public function connect(array $config): DqQueue
    {
        $dq = new Dq($config['url'], $config['token'] ?? null, $config['patience'] ?? 30.0);
        return new DqQueue($dq, $config);
    }
}
