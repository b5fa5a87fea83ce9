// Package store keeps records in one SQLite file: what every job did (windows),
// how the servers were (pressure), what was found (findings, with the windows
// that proved it) and whom the jobs belong to (owners).
//
// The engine's writer opens the file with [Open] and calls [Store.Write] for each
// batch and [Store.Maintain] about once a minute. The views open it with
// [OpenReadOnly] and ask: [Store.Top], [Store.Job], [Store.Findings],
// [Store.Pressure], [Store.Windows]. The package logs nothing, starts no
// goroutine, takes no time from the clock and never deletes or moves the file.
//
// # Promises
//
// A batch for which Write returned nil survives kill -9 of the writer and loss
// of power: the journal is a write-ahead log that is synced at every commit
// (synchronous=FULL; a commit a minute makes that cheap). A batch with an agent
// and a sequence number is counted once however often it is written. Readers
// and the writer do not wait for each other. When the disk is full, Write
// returns [*FullError], nothing of the batch is kept, what was there stays, and
// the same Store can write again once there is space.
//
// The file must lie on a local file system: the write-ahead log needs shared
// memory, which network file systems (Lustre too) do not give.
//
// # Levels and retention
//
// A window is added to three rows at once, those of its minute, its hour and its
// day (UTC), so that a question about a month reads some thirty days and not
// forty thousand minutes. Maintain drops minutes after 2 days, hours after 30,
// days after 2 years and findings after one year ([Retention]). Hours and days
// that are over are also packed, all jobs of one in a blob ("digest"): a cache
// beside the rows, dropped by any later write to the same period, which is what
// makes Top fast.
//
// # Size
//
// Measured by TestBytesPerRow: about 112 bytes per row where counters are whole
// numbers, about 160 where they are not, and about 45 per job in a digest. A site with 500 active
// jobs a minute on 1.5 pools each writes 1.08 million minute rows (115 MB) a
// day, which stay two days; with 3,000 jobs a day the hours add about 2.5 MB a
// day for 30 days and the days 0.8 MB a day for two years: about 1 GB at most,
// most of it in the two days of minutes and the two years of days.
package store
