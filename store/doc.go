// Package store keeps records in one SQLite file: what every job did (windows),
// how the servers were (pressure), what was found (findings, with the windows
// that proved it), whom the jobs belong to (owners), and what Slurm's hooks saw and
// did on the nodes (node jobs, node events).
//
// The engine's writer opens the file with [Open] and calls [Store.Write] for each
// batch and [Store.Maintain] about once a minute. The views open it with
// [OpenReadOnly] and ask: [Store.Top], [Store.Job], [Store.Findings],
// [Store.Pressure], [Store.Windows], [Store.NodeJobs], [Store.NodeEvents]. A hook,
// a process of its own per job and node, calls [AppendNode] once. The package logs
// nothing, starts no goroutine that outlives a call (but see AppendNode), takes no
// time from the clock and never deletes or moves the file.
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
// days and jobs on nodes after 2 years, findings and events of nodes after one
// year ([Retention]). Hours and days
// that are over are also packed, all jobs of one in a blob ("digest"): a cache
// beside the rows, dropped by any later write to the same period, which is what
// makes Top fast.
//
// # Size
//
// Measured by TestBytesPerRow on a mix of jobs: 70 bytes per row, indices and all,
// where counters are whole numbers, 95 where they are not; 40 to 60 bytes per job
// in a digest. So a site with 500 active jobs a minute on 1.5 pools each (1.08
// million minute rows a day) and 3,000 new jobs a day writes about
//
//	minutes   75 to 100 MB a day, kept 2 days    150 to 200 MB
//	hours     2 to 3 MB a day, kept 30 days      60 to 90 MB
//	days      0.6 MB a day, kept 2 years         about 450 MB
//	jobs      0.4 MB a day, kept 2 years         about 300 MB
//
// and the file stays near 1 GB. Pages that become free are used again, and given
// back to the file system when they are a tenth of the file.
//
// # Speed
//
// BenchmarkTop on two cores that others used too: a month of 10 million minute
// rows, nothing dropped, file opened anew for each question, ranked by job in 45
// to 60 ms, by user, account or app in 65 to 100 ms (IOGUARD_BENCH_DB names a
// file to keep the rows in). The time goes with the jobs in the span, not with
// the size of the file. Opening for reading takes less than 1 ms, a minute of 750
// windows is written in some 25 ms, a call of Maintain takes 25 to 120 ms.
//
// # Hooks
//
// BenchmarkHookProcesses on the same two cores: AppendNode takes 4 ms in a process
// of its own, five syncs of the disk among them, since the last to close the file
// also empties its journal. Of 200 such processes started at once half have done
// after 0.2 to 0.4 s and the last after 1.0 to 1.4 s, as long as it takes to start
// them. synchronous=NORMAL would not help the single hook and halve the median of a
// crowd, for the price of the last records when the power goes; so it is FULL here
// too. On a disk that syncs in 10 ms a crowd's last hook waits 10 ms longer for
// each before it.
package store
