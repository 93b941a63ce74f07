// Go's crypto/tls, as it is by default. Arguments: PORT TIMES VERSION. Prints the microseconds of each first request.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	times, err := strconv.Atoi(os.Args[2])
	check(err)
	version := uint16(tls.VersionTLS12)
	if os.Args[3] == "1.3" {
		version = tls.VersionTLS13
	}
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", MinVersion: version, MaxVersion: version}
	for range times {
		stream, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[1], config)
		check(err)
		began := time.Now()
		_, err = stream.Write([]byte("ping"))
		check(err)
		_, err = io.ReadFull(stream, make([]byte, 4))
		check(err)
		fmt.Println(time.Since(began).Microseconds())
		stream.Close()
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
