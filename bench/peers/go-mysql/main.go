// A tailer as a competent user would write it by hand: go-mysql's canal reads the binlog, each row becomes
// a JSON message keyed by its user, franz-go produces it, and the position is saved only when everything
// before it was acknowledged. The bench compares ours with it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/canal"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Interval for saving the position; each save waits for all acknowledgements.
const saveEvery = time.Second

// Mode of the position file, which is replaced by a rename: a torn position is worse than an old one.
const positionFileMode = 0o644

// The JSON message of a row.
type message struct {
	Op     string         `json:"op"`
	Before map[string]any `json:"before"`
	After  map[string]any `json:"after"`
	Source source         `json:"source"`
	TsMs   int64          `json:"ts_ms"`
}

type source struct {
	DB    string `json:"db"`
	Table string `json:"table"`
	File  string `json:"file"`
	Pos   uint32 `json:"pos"`
	TsMs  int64  `json:"ts_ms"`
}

type tailer struct {
	canal.DummyEventHandler
	client       *kgo.Client
	key          string
	file         string
	positionFile string
	saved        time.Time
}

func (t *tailer) OnRotate(_ *replication.EventHeader, rotate *replication.RotateEvent) error {
	t.file = string(rotate.NextLogName)
	return nil
}

func (t *tailer) OnRow(event *canal.RowsEvent) error {
	key := event.Table.FindColumn(t.key)
	if key < 0 {
		return fmt.Errorf("table %s has no column %s", event.Table.Name, t.key)
	}
	at := source{
		DB: event.Table.Schema, Table: event.Table.Name, File: t.file,
		Pos: event.Header.LogPos, TsMs: int64(event.Header.Timestamp) * 1000,
	}
	step := 1
	if event.Action == canal.UpdateAction {
		step = 2
	}
	for first := 0; first+step <= len(event.Rows); first += step {
		change := message{Source: at, TsMs: time.Now().UnixMilli()}
		last := event.Rows[first+step-1]
		switch event.Action {
		case canal.InsertAction:
			change.Op, change.After = "c", columns(event, last)
		case canal.DeleteAction:
			change.Op, change.Before = "d", columns(event, last)
		default:
			change.Op = "u"
			change.Before, change.After = columns(event, event.Rows[first]), columns(event, last)
		}
		if err := t.send(last[key], change); err != nil {
			return err
		}
	}
	return nil
}

func columns(event *canal.RowsEvent, row []any) map[string]any {
	values := make(map[string]any, len(row))
	for index, value := range row {
		values[event.Table.Columns[index].Name] = value
	}
	return values
}

func (t *tailer) send(key any, change message) error {
	value, err := json.Marshal(change)
	if err != nil {
		return err
	}
	record := &kgo.Record{Key: fmt.Append(nil, key), Value: value}
	t.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			log.Fatal("produce: ", err)
		}
	})
	return nil
}

func (t *tailer) OnPosSynced(_ *replication.EventHeader, at mysql.Position, _ mysql.GTIDSet, force bool) error {
	if !force && time.Since(t.saved) < saveEvery {
		return nil
	}
	if err := t.client.Flush(context.Background()); err != nil {
		return err
	}
	t.saved = time.Now()
	return t.save(at)
}

func (t *tailer) save(at mysql.Position) error {
	fresh := t.positionFile + ".new"
	text := fmt.Sprintf("%s:%d\n", at.Name, at.Pos)
	if err := os.WriteFile(fresh, []byte(text), positionFileMode); err != nil {
		return err
	}
	return os.Rename(fresh, t.positionFile)
}

func main() {
	address := flag.String("mysql", "", "host:port of MariaDB")
	user := flag.String("user", "", "its user")
	password := flag.String("password", "", "the user's password")
	table := flag.String("table", "", "database.table to follow")
	key := flag.String("key", "user_id", "column that keys the messages")
	brokers := flag.String("brokers", "", "host:port of Kafka")
	topic := flag.String("topic", "", "topic to produce to")
	from := flag.String("from", "", "file:offset to begin at")
	positionFile := flag.String("position-file", "", "where the position is saved")
	serverID := flag.Uint("server-id", 184100, "id among the server's replicas")
	linger := flag.Duration("linger", 10*time.Millisecond, "how long a message waits for company")
	flag.Parse()

	config := canal.NewDefaultConfig()
	config.Addr, config.User, config.Password = *address, *user, *password
	config.Flavor, config.ServerID = "mariadb", uint32(*serverID)
	config.IncludeTableRegex = []string{"^" + strings.ReplaceAll(*table, ".", `\.`) + "$"}
	config.Dump.ExecutionPath = "" // no mysqldump
	reader, err := canal.NewCanal(config)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(*brokers),
		kgo.DefaultProduceTopic(*topic),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerLinger(*linger),
	)
	if err != nil {
		log.Fatal(err)
	}
	file, offset, _ := strings.Cut(*from, ":")
	start, err := strconv.ParseUint(offset, 10, 32)
	if err != nil {
		log.Fatal("-from is not file:offset: ", err)
	}
	reader.SetEventHandler(&tailer{client: client, key: *key, file: file, positionFile: *positionFile})
	log.Fatal(reader.RunFrom(mysql.Position{Name: file, Pos: uint32(start)}))
}
