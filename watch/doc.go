// Package watch is the agent on a Lustre server: it samples, has the engine
// judge, keeps records and says what it found. On a recording it does the same
// as fast as the files can be read. It never changes the server.
package watch
