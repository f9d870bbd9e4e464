//! Kafka nodes that are broker and controller in one (`KRaft`), run from the jars that ops/install.sh fetches. Formatting a
//! data folder starts a Java program for seconds, so one is formatted per version, and copied.

use std::fs;
use std::iter;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::time::Duration;

use crate::process::Process;
use crate::process::probe::Probe;
use crate::{Error, Options, Result, Tie, paths, process::ports, servers::datadir};

/// The version pinned in ops/kafka/pom.xml.
const VERSION: &str = "4.3.1";
/// Java's heap and collector. The broker of all our tests ends with some 10,000 partitions, each of about 40 kB.
const JAVA: &[&str] = &["-Xms128m", "-Xmx1g", "-XX:+UseSerialGC"];
/// Heap of each node of a cluster, which serves one test only. The later of two settings wins.
const SMALL_HEAP: &str = "-Xmx256m";
/// A private node lives for minutes. Java's optimising compiler took 40 % of a core from the code under
/// measurement.
const COMPILED_LIGHTLY: &str = "-XX:TieredStopAtLevel=1";
/// The file that says which node of which cluster a data folder belongs to.
const IDENTITY: &str = "meta.properties";
/// The archive of the classes that a broker loads, in its folder of the cache. It saves 1.5 of the 4 seconds of
/// processor time that a broker needs to start.
const CLASSES: &str = "classes.jsa";
/// Longest start of the broker that writes it.
const ARCHIVE_WITHIN: Duration = Duration::from_secs(60);
/// Ports of broker and controller in the settings for formatting, which opens none.
const NO_PORTS: (u16, u16) = (1, 2);
/// Log only warnings and errors, which the INFO lines of a start would bury.
const LOGGING: &str = "\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
";

/// Prepares the broker of the stack in `dir`.
pub(crate) fn prepare(dir: &Path, options: &Options) -> Result<Process> {
    let mut nodes = prepare_cluster(slice::from_ref(&dir.to_path_buf()), options)?;
    Ok(nodes.remove(0))
}

/// Prepares a cluster with a node in each of `dirs`. Kafka's internal topics have a replica on each node and stay writable
/// while one node is down.
pub(crate) fn prepare_cluster(dirs: &[PathBuf], options: &Options) -> Result<Vec<Process>> {
    let mut controllers = Vec::new();
    for dir in dirs {
        let home = dir.join("kafka");
        fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
        controllers.push(ports::remembered(&home.join("controller-port"))?);
    }
    let cluster = Cluster { id: random_id(), controllers };
    let nodes = (1..).zip(dirs);
    nodes.map(|(number, dir)| prepare_node(dir, number, &cluster, options)).collect()
}

/// Settings that the nodes of a cluster share.
struct Cluster {
    id: String,
    /// Ports of the controller quorum; the first is node 1's.
    controllers: Vec<u16>,
}

fn prepare_node(
    dir: &Path,
    number: usize,
    cluster: &Cluster,
    options: &Options,
) -> Result<Process> {
    let home = dir.join("kafka");
    let port = ports::remembered(&home.join("port"))?;
    let data = datadir::prepare(&home, &format!("kafka-{VERSION}-data"), format)?;
    if !data.join(IDENTITY).exists() {
        write_identity(&data, number, cluster)?;
    }
    let properties = home.join("server.properties");
    write(&properties, &server_properties(&data, port, number, cluster, session_ms(options)))?;

    let small = (cluster.controllers.len() > 1).then_some(&SMALL_HEAP);
    let lightly = (!options.kafka_optimised).then_some(&COMPILED_LIGHTLY);
    // Without effect if this machine's Java is another than the one that wrote it.
    let archive = paths::cache().join(archive_name()).join(CLASSES);
    let use_archive = format!("-XX:SharedArchiveFile={}", archive.display());
    let archive = archive.exists().then_some(use_archive.as_str());
    let flags: Vec<&str> =
        JAVA.iter().chain(small).chain(lightly).copied().chain(archive).collect();
    let mut arguments = java_arguments(&flags, &home)?;
    arguments.extend(["kafka.Kafka".to_owned(), properties.display().to_string()]);
    let java = paths::program("java")?;
    Ok(Process::new("kafka", java, dir, port, Probe::Kafka, options.tie).arguments(arguments))
}

/// Returns the arguments of a Java program of Kafka, and writes its logging's settings to `home`.
fn java_arguments(flags: &[&str], home: &Path) -> Result<Vec<String>> {
    let libs = paths::cache().join(format!("kafka-{VERSION}/libs"));
    if !libs.exists() {
        return Err(Error::NotInstalled {
            program: format!("Apache Kafka {VERSION}"),
            by: paths::INSTALLER,
        });
    }
    let logging = home.join("log4j2.properties");
    write(&logging, LOGGING)?;
    let mut arguments: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    arguments.push(format!("-Dlog4j2.configurationFile={}", logging.display()));
    arguments.extend(["-cp".to_owned(), format!("{}/*", libs.display())]);
    Ok(arguments)
}

/// Formats a data folder without an identity, for each node to get its own.
fn format(data: &Path, log: &Path) -> Result<()> {
    let home = PathBuf::from(format!("{}.settings", data.display()));
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    let properties = home.join("server.properties");
    let alone = Cluster { id: random_id(), controllers: vec![NO_PORTS.1] };
    let session = session_ms(&Options::default());
    write(&properties, &server_properties(data, NO_PORTS.0, 1, &alone, session))?;
    let mut format = Command::new(paths::program("java")?);
    format
        .args(java_arguments(&[COMPILED_LIGHTLY], &home)?)
        .args(["kafka.tools.StorageTool", "format", "-t", &alone.id, "-c"])
        .arg(&properties);
    datadir::run("formatting Kafka's data folder", format, log)?;
    let identity = data.join(IDENTITY);
    fs::remove_file(&identity).map_err(Error::file("remove", &identity))?;
    fs::remove_dir_all(&home).map_err(Error::file("remove", &home))
}

fn archive_name() -> String {
    format!("kafka-{VERSION}-classes")
}

/// Makes the archive of Kafka's classes, from which all brokers start from then on, unless the cache has it. It takes
/// seconds, so it is worthwhile before many starts, as of tests.
///
/// # Errors
/// Java or Kafka is not installed.
pub fn archive_kafka_classes() -> Result<()> {
    datadir::cached(&archive_name(), archive_classes).map(drop)
}

/// Starts a broker once and stops it when it answers: it writes the classes that it loaded to an archive in `folder`.
fn archive_classes(folder: &Path, log: &Path) -> Result<()> {
    let home = folder.join("kafka");
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    let data = datadir::prepare(&home, &format!("kafka-{VERSION}-data"), format)?;
    let cluster = Cluster { id: random_id(), controllers: vec![ports::free()?] };
    write_identity(&data, 1, &cluster)?;
    let port = ports::free()?;
    let properties = home.join("server.properties");
    let session = session_ms(&Options::default());
    write(&properties, &server_properties(&data, port, 1, &cluster, session))?;
    let archive = format!("-XX:ArchiveClassesAtExit={}", folder.join(CLASSES).display());
    let flags: Vec<&str> =
        JAVA.iter().copied().chain([COMPILED_LIGHTLY, archive.as_str()]).collect();
    let mut broker = Command::new(paths::program("java")?);
    broker.args(java_arguments(&flags, &home)?).arg("kafka.Kafka").arg(&properties);
    datadir::run_until("archiving Kafka's classes", broker, log, ARCHIVE_WITHIN, || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    })?;
    fs::remove_dir_all(&home).map_err(Error::file("remove", &home))
}

fn write_identity(data: &Path, number: usize, cluster: &Cluster) -> Result<()> {
    let cluster = &cluster.id;
    let directory = random_id();
    let lines =
        format!("version=1\ncluster.id={cluster}\nnode.id={number}\ndirectory.id={directory}\n");
    write(&data.join(IDENTITY), &lines)
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(Error::file("write", file))
}

/// Returns 128 bits in base64, 22 characters. The last character carries only two bits, so it is always `A`.
fn random_id() -> String {
    iter::repeat_with(fastrand::alphanumeric).take(21).chain(['A']).collect()
}

/// How long a node may be silent before it is fenced. A private one that was killed is let in again only after that. The
/// broker that all tests share is never killed, and silent for seconds while they use all of a small machine.
fn session_ms(options: &Options) -> u32 {
    match options.tie {
        Tie::Owner => 2_000,
        Tie::Detached => 30_000,
    }
}

fn server_properties(
    data: &Path,
    port: u16,
    number: usize,
    cluster: &Cluster,
    session_ms: u32,
) -> String {
    let data = data.display();
    let copies = cluster.controllers.len();
    let in_sync = copies.saturating_sub(1).max(1);
    let controller = cluster.controllers[number - 1];
    let voters = (1..).zip(&cluster.controllers);
    let voters: Vec<_> = voters.map(|(node, port)| format!("{node}@127.0.0.1:{port}")).collect();
    let voters = voters.join(",");
    format!(
        "\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={data}

# A topic is made on purpose, with its layout.
auto.create.topics.enable=false

# A copy on each node; of several one may be away. The topic of groups' offsets has min.insync.replicas of the brokers.
# A topic with fewer copies than that needs no more than it has.
default.replication.factor={copies}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
min.insync.replicas={in_sync}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}

# Small and quick: few internal partitions, small index files, a small cleaner, groups formed at once.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
log.index.size.max.bytes=1048576
log.cleaner.dedupe.buffer.size=8388608
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000

broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=250

num.network.threads=2
num.io.threads=4
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_installed() {
        let pom = paths::project_root().join("ops/kafka/pom.xml");
        let pom = fs::read_to_string(pom).unwrap();
        assert!(pom.contains(&format!("<kafka.version>{VERSION}</kafka.version>")));
    }

    #[test]
    fn an_id_has_22_characters_and_ends_without_stray_bits() {
        let id = random_id();
        assert_eq!(id.len(), 22);
        assert!(id.ends_with('A'));
    }
}
