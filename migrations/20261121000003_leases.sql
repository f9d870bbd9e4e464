-- Worker numbers of the id generator. A holder renews in time or stops making ids; last_ms keeps
-- the next holder from making an id that this one may have made.
create table worker_lease (
    worker  smallint     not null primary key,
    holder  varchar(100) not null,
    until   datetime(3)  not null,
    last_ms bigint       not null
) engine = innodb default charset = utf8mb4;

-- Named leases. They only save work: correctness never rests on them.
create table lease (
    name   varchar(100) not null primary key,
    holder varchar(100) not null,
    until  datetime(3)  not null
) engine = innodb default charset = utf8mb4;

-- One generation for all views: raised by compare-and-set when the view's Redis may have lost writes.
create table view_generation (
    id         tinyint      not null primary key, -- always 1
    run_id     varchar(100) not null,             -- run and replication id of the Redis it is for
    generation bigint       not null
) engine = innodb default charset = utf8mb4;
