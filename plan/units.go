package plan

import "time"

// Size is a number of bytes. It is written 4096, 4k, 1MiB or 1MB: KiB, MiB, GiB, TiB and fio's bare
// k, m, g, t are powers of 1024; kB, MB, GB, TB are powers of 1000.
type Size int64

// Duration is a time.Duration, written 10s, 1m30s or 250ms.
type Duration time.Duration

// Percent is a ratio written as a percentage: 5% is 0.05.
type Percent float64
