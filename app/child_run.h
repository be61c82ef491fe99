// `foretrain train` as a child process of the desktop. Leaves out what its output means
// (ui/view_model/run_model.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ui/training_process.h"

namespace foretrain {

// A process whose output goes to files without a name: it outlives who started it, and nobody must
// read for it to go on. It has a process group of its own, so that Ctrl-C in a terminal is not
// meant for it, and it reads nothing.
class ChildRun final : public TrainingProcess {
 public:
  // Starts `program` with `arguments` (without its own name), nothing of ours but standard error
  // and output in it. Errors: kInvalidArgument, it cannot be executed; kResourceExhausted, no
  // process or file can be made. Each with the system's text.
  static Result<std::unique_ptr<TrainingProcess>> Start(const std::string& program,
                                                        const std::vector<std::string>& arguments);
  ~ChildRun() override;
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

  TrainingNews Poll() override;
  void Stop() override;
  void EndsWithDesktop(bool ends) override { ends_with_desktop_ = ends; }

  pid_t pid() const { return pid_; }

 private:
  struct Stream {
    int file = -1;
    off_t read = 0;  // bytes so far
  };

  ChildRun(pid_t pid, int output, int errors) : pid_(pid), output_{output}, errors_{errors} {}
  static std::string ReadNew(Stream& stream);

  pid_t pid_;
  bool ended_ = false;  // and was waited for
  bool ends_with_desktop_ = false;
  Stream output_, errors_;
};

// The executable of this process. Errors: kUnsupported, the system does not say.
Result<std::string> OwnExecutable();

// What the desktop is handed: the executable of this process is started.
StartTraining StartsOwnExecutable();

}  // namespace foretrain
