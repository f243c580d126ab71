<?php

declare(strict_types=1);

namespace Dq\Laravel;

use Illuminate\Support\ServiceProvider;

/** Registers the driver `dq` of config/queue.php. */
final class DqServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->app['queue']->addConnector('dq', fn() => new DqConnector());
    }
}
