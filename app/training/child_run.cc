#include "app/training/child_run.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/text.h"

extern char** environ;

namespace foretrain {
namespace {

constexpr std::size_t kMaxAtOnce = std::size_t{1} << 20;  // bytes of a stream in one Poll

// A file without a name, open for reading and writing; closed with the object. A file takes output
// of any length without a reader, where a full pipe would block the child. It vanishes with its
// last descriptor.
class UnnamedFile {
 public:
  static Result<UnnamedFile> Make() {
    const char* const folder = std::getenv("TMPDIR");
    std::string path =
        std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/foretrain-run-XXXXXX";
    const int file = ::mkostemp(path.data(), O_CLOEXEC);
    if (file < 0) {
      return Fail(ErrorCode::kResourceExhausted,
                  path + ": no file for the output of a run: " + std::strerror(errno));
    }
    ::unlink(path.c_str());
    return UnnamedFile(file);
  }
  UnnamedFile(UnnamedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  UnnamedFile& operator=(UnnamedFile&&) = delete;
  ~UnnamedFile() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }
  int Release() { return std::exchange(file_, -1); }

 private:
  explicit UnnamedFile(int file) : file_(file) {}
  int file_;
};

// The arguments of posix_spawn; freed with the object.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // Gives the child an empty stdin, the two files as output and no other descriptor. It gets a
  // process group of its own and default signal actions, so that Ctrl-C in the terminal does not
  // reach it. Returns the first error's number, or 0.
  int Fill(int output, int errors) {
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) sigaddset(&standard, signal);
    const std::array<int, 8> results{
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO),
        posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO),
        posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1),
        posix_spawnattr_setsigmask(&attributes, &none),
        posix_spawnattr_setsigdefault(&attributes, &standard),
        posix_spawnattr_setpgroup(&attributes, 0),
        posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)};
    for (const int result : results) {
      if (result != 0) return result;
    }
    return 0;
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

// Resident memory of the process; `nullopt` once it has ended.
std::optional<std::int64_t> ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t all = 0, resident = 0;
  if (!(file >> all >> resident) || resident <= 0) return std::nullopt;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

// Makes the files, then starts the process. The message names the program.
Result<std::unique_ptr<TrainingProcess>> ChildRun::Start(
    const std::string& program, const std::vector<std::string>& arguments) {
  FT_ASSIGN(UnnamedFile output, UnnamedFile::Make());
  FT_ASSIGN(UnnamedFile errors, UnnamedFile::Make());
  SpawnPlan plan;
  int error = plan.Fill(output.get(), errors.get());
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  if (error == 0) {
    error = ::posix_spawn(&pid, program.c_str(), &plan.actions, &plan.attributes, pointers.data(),
                          environ);
  }
  if (error != 0) {
    const bool ours = error == EAGAIN || error == ENOMEM;
    return Fail(ours ? ErrorCode::kResourceExhausted : ErrorCode::kInvalidArgument,
                Printable(program, 512) + ": cannot be started: " + std::strerror(error));
  }
  return std::unique_ptr<TrainingProcess>(new ChildRun(pid, output.Release(), errors.Release()));
}

// Asks a child that belongs to the desktop to stop. It ends at a step boundary by itself, so
// nothing waits for it here.
ChildRun::~ChildRun() {
  if (!ended_ && ends_with_desktop_) ::kill(pid_, SIGINT);
  ::close(output_.file);
  ::close(errors_.file);
}

// At most kMaxAtOnce bytes a call, so that one frame of the desktop stays short. `pread` leaves the
// child's own file offset alone.
std::string ChildRun::ReadNew(Stream& stream) {
  std::string text(kMaxAtOnce, '\0');
  const ssize_t read = ::pread(stream.file, text.data(), text.size(), stream.read);
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  stream.read += static_cast<off_t>(text.size());
  return text;
}

// Never blocks: at most two reads and one waitpid, unless the process has ended. Then it reads the
// rest, and no output is lost.
TrainingNews ChildRun::Poll() {
  TrainingNews news;
  if (ended_) return news;
  int status = 0;
  const pid_t waited = ::waitpid(pid_, &status, WNOHANG);
  if (waited == 0) news.resident_bytes = ResidentBytes(pid_);
  const bool gone = waited == pid_ || (waited < 0 && errno == ECHILD);
  // waitpid came first: if the process has ended, this reads everything that it wrote.
  do {
    const std::string output = ReadNew(output_), errors = ReadNew(errors_);
    news.output += output;
    news.errors += errors;
    if (output.size() < kMaxAtOnce && errors.size() < kMaxAtOnce) break;
  } while (gone);
  if (!gone) return news;
  ended_ = true;
  news.end = TrainingEnd{WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return news;
}

void ChildRun::Stop() {
  if (!ended_) ::kill(pid_, SIGINT);
}

// The path of this executable, so that the child is the same version as the desktop.
Result<std::string> OwnExecutable() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) == path.size()) {
    return Fail(ErrorCode::kUnsupported,
                std::string("the system does not say which program this is (/proc/self/exe): ") +
                    std::strerror(errno));
  }
  return std::string(path.data(), static_cast<std::size_t>(length));
}

StartTraining StartsOwnExecutable() {
  return [](const std::vector<std::string>& arguments) -> Result<std::unique_ptr<TrainingProcess>> {
    FT_ASSIGN(const std::string program, OwnExecutable());
    return ChildRun::Start(program, arguments);
  };
}

}  // namespace foretrain
