//! The implementation of each fault.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::store::NewTimer;
use tourbillon_durable::{Time, TimerId};

use super::Storm;
use crate::Result;
use crate::database::Address;
use crate::faults::Fault;
use crate::log::{Answer, Line, Log, Op, Stamp};
use crate::proxy::{Mode, Proxy};
use crate::workload::{QUICK, RETRY};

/// The number of the client that writes late.
const LATE: u32 = u32::MAX;

/// Timers that it writes in a transaction.
const LATE_TIMERS: u32 = 20;

impl Storm {
    /// Does it, and returns when it is over.
    pub(super) fn harm(&mut self, fault: Fault) -> Result<()> {
        let victim = self.random.usize(..self.nodes.len());
        let span = self.options.lease * self.random.u32(fault.span()) / 100;
        match fault {
            Fault::Skew => return self.skew(victim),
            Fault::Late => return self.late(span),
            _ => {}
        }
        let is_away = match fault {
            Fault::ServerAway => true,
            Fault::Hold => !self.address.is_postgres(),
            _ => false,
        };
        let span = self.options.away.filter(|_| is_away).unwrap_or(span);
        // On SQLite a node that is stopped may hold the lock that all need. Of the network, a third
        // of the faults strike everybody.
        let mode = fault.mode(&mut self.random);
        let is_one = match fault {
            Fault::KillOne => true,
            Fault::FreezeShort | Fault::FreezeLong => self.address.is_postgres(),
            _ => mode.is_some() && self.random.u32(..3) > 0,
        };
        let node = is_one.then_some(u32::try_from(victim)?);
        self.faults += 1;
        let (number, name) = (self.faults, fault.name().to_owned());
        let whose = node.map_or("all".to_owned(), |node| format!("node {node}"));
        self.say(&format!("{name} of {whose} for {span:?}"));
        self.log.write(&Line::Fault { number, at: Stamp::now(), name, node });
        match mode {
            Some(mode) => self.net(mode, is_one.then_some(victim), span),
            None => self.strike(fault, victim, span)?,
        }
        self.log.write(&Line::Over { number, at: Stamp::now() });
        Ok(())
    }

    fn strike(&mut self, fault: Fault, victim: usize, span: Duration) -> Result<()> {
        match fault {
            Fault::KillOne => self.kill(victim..victim + 1, span)?,
            Fault::KillAll => self.kill(0..self.nodes.len(), span)?,
            Fault::FreezeShort | Fault::FreezeLong => {
                let process = self.nodes[victim].process.as_ref().ok_or("the node is not there")?;
                process.freeze()?;
                thread::sleep(span);
                process.thaw()?;
            }
            Fault::Hold => self.address.hold(span)?,
            Fault::StandbyCut => {
                let standby = self.standby.as_ref().ok_or("there is no standby")?;
                standby.cut();
                thread::sleep(span);
                standby.mend();
            }
            Fault::Terminate => self.address.terminate()?,
            Fault::Managed => self.manage()?,
            Fault::ServerKilled => {
                let cluster = self.cluster.as_ref().ok_or("there is no server")?;
                cluster.kill()?;
                cluster.start()?;
            }
            Fault::ServerRestarted | Fault::ServerAway => {
                let cluster = self.cluster.as_ref().ok_or("there is no server")?;
                cluster.stop(if fault == Fault::ServerAway { "immediate" } else { "fast" })?;
                thread::sleep(if fault == Fault::ServerAway { span } else { Duration::ZERO });
                cluster.start()?;
            }
            other => return Err(format!("{} is done elsewhere", other.name()).into()),
        }
        Ok(())
    }

    /// Runs the manager's program, with a number that selects its action. It returns once there is
    /// a primary and a standby again.
    fn manage(&mut self) -> Result<()> {
        let program = self.options.manager.as_ref().ok_or("there is no manager")?;
        let choice = self.random.u32(..).to_string();
        let status = Command::new(program).args(["harm", &choice]).stdin(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("the manager: {status}").into()) }
    }

    fn kill(&mut self, nodes: std::ops::Range<usize>, span: Duration) -> Result<()> {
        for node in &mut self.nodes[nodes.clone()] {
            let process = node.process.as_mut().ok_or("the node is not there")?;
            if process.has_ended()? {
                return Err("a node ended by itself".into());
            }
            // Dropped, it is killed.
            node.process = None;
        }
        thread::sleep(span);
        nodes.into_iter().try_for_each(|number| self.start_node(number))
    }

    /// All proxies in front of the server.
    pub(super) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let nodes = self.nodes.iter().flat_map(|node| &node.proxies);
        nodes.chain(&self.clients_proxies)
    }

    fn net(&mut self, mode: Mode, victim: Option<usize>, span: Duration) {
        let struck: Vec<_> = match victim {
            Some(victim) => self.nodes[victim].proxies.iter().collect(),
            None => self.proxies().collect(),
        };
        struck.iter().for_each(|proxy| proxy.set(mode));
        thread::sleep(span);
        struck.iter().for_each(|proxy| proxy.set(Mode::Pass));
        // Bytes on their way arrive.
        if let Mode::Delay(span) = mode {
            thread::sleep(span);
        }
    }

    fn skew(&mut self, victim: usize) -> Result<()> {
        let seconds = [-30, 0, 30][self.random.usize(..3)];
        let skew = self.nodes[victim].skew.as_ref().ok_or("the node's clock is the host's")?;
        skew.set(seconds)?;
        let node = u32::try_from(victim)?;
        self.say(&format!("clock of node {node} off by {seconds} s"));
        self.log.write(&Line::Skew { at: Stamp::now(), node, seconds });
        Ok(())
    }

    /// Timers that become visible long after scans have passed their time.
    fn late(&mut self, span: Duration) -> Result<()> {
        let (address, log) = (self.address.clone(), self.log.clone());
        self.faults += 1;
        let first = self.faults * 1_000;
        self.say(&format!("timers that are written {span:?} behind"));
        self.late.push(thread::spawn(move || late(&address, &log, first, span)));
        Ok(())
    }
}

fn late(address: &Address, log: &Log, first: u32, span: Duration) {
    let mut timers = Vec::new();
    let now = Time::from(SystemTime::now());
    for number in first..first + LATE_TIMERS {
        // Most of them are due before the commit.
        let scheduled_for = now + span * (number - first) / (LATE_TIMERS - 4);
        let name = format!("late-{number}");
        let at = Stamp::now();
        let op = Op::Once(scheduled_for);
        log.write(&Line::Call { client: LATE, number, at, name: name.clone(), op });
        let mut timer = NewTimer::new(TimerId::new(now), QUICK, scheduled_for);
        (timer.name, timer.retry) = (Some(name), RETRY);
        timers.push(timer);
    }
    let is_done = address.insert_late(&timers, span).is_ok();
    let answer = if is_done { Answer::Done } else { Answer::Unknown };
    for number in first..first + LATE_TIMERS {
        let (at, running) = (Stamp::now(), Vec::new());
        log.write(&Line::Return { client: LATE, number, at, answer, running });
    }
}
