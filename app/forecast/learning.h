// Learning a device profile from measured runs on the command line: which runs, where the profile
// is kept, what is shown. Leaves out how constants are learned: sim/learn/learn.h.
#pragma once

#include <string>
#include <vector>

#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/plan_flags.h"
#include "sim/learn/learn.h"
#include "traces/run.h"

namespace foretrain {

struct LearnRequest {
  ModelFlags model;      // of --step-time, logs, and runs that record none
  ClusterFlags cluster;  // likewise; its --device-profile is the profile to improve
  PlanFlags plan;        // likewise; its preset is the system that ran
  DialectFlags dialect;  // likewise; was read
  std::string runs;      // "STORE[:RUN]" or a log of another trainer, separated by commas
  std::string step_time;
  std::string out;  // file; empty: where forecasts look for it
};

// A measured step before it has a profile.
struct Measurement {
  std::string name;  // as LearnedRun
  ModelSpec model;
  ClusterSpec cluster;
  Plan plan;
  double step_s = 0;
  // Store and run that it was read from; 0: it is no stored run.
  std::string store{};
  RunId run = 0;
};

// All measurements that the options name, in their order, of one device.
Result<std::vector<Measurement>> ReadMeasurements(const LearnRequest& request);

// One run that was learned from.
struct LearnedRun {
  std::string name;  // "foretrain.db: run 3", "train.log" or "--step-time"
  std::string plan;
  double measured_s = 0, before_s = 0, after_s = 0;
};

struct LearnedProfile {
  std::vector<LearnedRun> runs;
  Learned learned;
  std::string device, origin, path;
  double error_before = 0;  // of a forecast without these runs
};

// Learns and writes the profile. Errors: kInvalidArgument for a run without a measured step, a run
// without model, machine or plan that the options do not supply, or runs of several devices; those
// of LearnFrom and of reading and writing files.
Result<LearnedProfile> LearnFromMeasurements(const LearnRequest& request);

// For people, and as JSON.
std::string LearnedProfileText(const LearnedProfile& profile);
std::string LearnedProfileJson(const LearnedProfile& profile);

}  // namespace foretrain
