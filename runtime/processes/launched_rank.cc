#include "runtime/processes/launched_rank.h"

#include <array>
#include <charconv>
#include <cstring>

namespace foretrain {
namespace {

using Get = const char* (*)(const char*);

constexpr int kUsualPort = 29500;

struct Launcher {
  const char* rank;
  const char* world;
  const char* local;
  const char* machine;  // ranks on this machine (srun: machines of the step)
};
constexpr std::array kLaunchers = {
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES"}};

// The whole text must be a number: "4x" or "" is refused. A variable that is missing next to
// `partner` is refused too. Training as rank 0 of 1 would hide the wrong launch.
Result<int> NumberOf(Get get, const char* name, const char* partner, int min, int max) {
  const char* const text = get(name);
  if (text == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, std::string(name) + " is not set, but " + partner +
                                                 " is; launchers set both, so unset " + partner +
                                                 " to run all ranks here");
  }
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error == std::errc() && rest == end && value >= min && value <= max) return value;
  return Fail(ErrorCode::kInvalidArgument, std::string(name) + " is \"" + text + "\"; it is from " +
                                               std::to_string(min) + " to " + std::to_string(max));
}

// srun also sets its variables in a batch script's own shell, but not the number of tasks of a
// step.
bool IsSet(Get get, const Launcher& launcher) {
  const bool slurm = std::strcmp(launcher.rank, "SLURM_PROCID") == 0;
  return get(launcher.rank) != nullptr && (!slurm || get(launcher.world) != nullptr);
}

// False if the launcher does not say: MASTER_ADDR is then required.
bool OneMachine(Get get, const Launcher& launcher, int world) {
  if (get(launcher.machine) == nullptr) return false;
  const bool slurm = std::strcmp(launcher.machine, "SLURM_STEP_NUM_NODES") == 0;
  return get(launcher.machine) == std::to_string(slurm ? 1 : world);
}

// torchrun's agent listens on MASTER_PORT itself, hence the next port. 65534 is the largest port
// that has a next one.
Result<void> FindMeeting(Get get, const Launcher& launcher, LaunchedRank& at) {
  const bool one_machine = OneMachine(get, launcher, at.world);
  const char* const address = get("MASTER_ADDR");
  if (one_machine) {
    at.address = "127.0.0.1";
  } else if (address != nullptr && *address != '\0') {
    at.address = address;
  } else {
    return Fail(ErrorCode::kInvalidArgument, std::string("MASTER_ADDR is not set, but ") +
                                                 launcher.rank +
                                                 " is; it is the address of rank 0's machine");
  }
  at.port = kUsualPort;
  if (get("MASTER_PORT") != nullptr || !one_machine) {
    FT_ASSIGN(at.port, NumberOf(get, "MASTER_PORT", launcher.rank, 1, 65534));
  }
  const char* const agent = get("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::strcmp(agent, "True") == 0) ++at.port;
  return {};
}

}  // namespace

Result<LaunchedRank> ReadLaunchedRank(Get get) {
  LaunchedRank at;
  for (const Launcher& launcher : kLaunchers) {
    if (!IsSet(get, launcher)) continue;
    FT_ASSIGN(at.world, NumberOf(get, launcher.world, launcher.rank, 1, 1 << 20));
    FT_ASSIGN(at.rank, NumberOf(get, launcher.rank, launcher.world, 0, at.world - 1));
    at.local = at.rank;
    if (get(launcher.local) != nullptr) {
      FT_ASSIGN(at.local, NumberOf(get, launcher.local, launcher.rank, 0, at.world - 1));
    }
    if (at.world > 1) FT_TRY(FindMeeting(get, launcher, at));
    const char* const token = get("FORETRAIN_JOB_TOKEN");
    if (token != nullptr) at.token = token;
    return at;
  }
  return at;
}

}  // namespace foretrain
