-- What the platform's user needs beside all rights on its own database: to read the binlog, and to know
-- which files it has. (MariaDB calls the second BINLOG MONITOR, and takes this name too.)
grant replication slave, replication client on *.* to 'coupon'@'%';
