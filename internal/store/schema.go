package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"iotax"
)

//go:embed migrations
var migrations embed.FS

// A migrant is a driver whose schema changes through migrations.
type migrant interface {
	driver
	// schema returns the directory of the migrations, goose's dialect, the name of this store for errors, and the
	// placeholder for the address of another store in hints.
	schema() (kind string, dialect goose.Dialect, on, another string)
	// version returns the number of the last applied migration, or 0 if the database has no tables of iotax.
	version(ctx context.Context, db *sql.DB) (int, error)
	// alone calls `change` while it holds a lock that prevents other processes from migrating. It passes a function
	// `prepare` to it. `change` calls `prepare` with the version of the database before it migrates, unless another process
	// has already migrated it.
	alone(ctx context.Context, db *sql.DB, change func(prepare func(version int) error) error) error
}

// opened migrates db to the newest schema and returns db. On an error it closes db.
func opened(ctx context.Context, db *sql.DB, d migrant) (*sql.DB, error) {
	err := migrate(ctx, db, d)
	if err == nil {
		return db, nil
	}
	db.Close()
	if e := (*iotax.Error)(nil); errors.As(err, &e) {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, d.explain("open", err)
}

func migrate(ctx context.Context, db *sql.DB, d migrant) error {
	kind, dialect, on, another := d.schema()
	newest, err := newestMigration(kind)
	if err != nil {
		return err
	}
	version, err := d.version(ctx, db)
	for p := newPauses(patience); err != nil && again(err) && p.wait(ctx); {
		version, err = d.version(ctx, db)
	}
	if err != nil || version == newest {
		return err
	}
	if version > newest {
		return &iotax.Error{Op: "open store", On: on, Err: fmt.Errorf("made by a newer iotax: its schema is version %d, this iotax knows %d", version, newest),
			Hint: "use the newer iotax, or another store: --store " + another}
	}
	return d.alone(ctx, db, func(prepare func(int) error) error {
		version, err := d.version(ctx, db)
		if err != nil || version == newest {
			return err
		}
		if err := prepare(version); err != nil {
			return err
		}
		dir, err := fs.Sub(migrations, "migrations/"+kind)
		if err != nil {
			return err
		}
		p, err := goose.NewProvider(dialect, db, dir, goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return err
		}
		_, err = p.Up(ctx)
		return err
	})
}

// newestMigration returns the number of the last migration for a kind of database.
func newestMigration(kind string) (int, error) {
	files, err := fs.ReadDir(migrations, "migrations/"+kind)
	if err != nil || len(files) == 0 {
		return 0, errors.Join(errors.New("no migrations"), err)
	}
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	return strconv.Atoi(number)
}
