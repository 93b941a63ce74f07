<?php
// A router script for PHP's own server, which guards nothing. It answers ADMIN below /admin and OPEN elsewhere: the path as PHP's functions read it.
$parsed = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$paths = [$_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? '', rawurldecode($parsed ?: '')];
foreach ($paths as $path) {
    if ($path === '/admin' || str_starts_with($path, '/admin/')) {
        echo 'ADMIN';
        return true;
    }
}
echo 'OPEN';
return true;
