<?php

// What composer makes of composer.json of the PHP client.

spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, 'Dq\\')) {
        require __DIR__ . '/../../src/clients/php/src/' . strtr(substr($class, 3), '\\', '/') . '.php';
    }
});
