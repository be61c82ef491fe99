#include <cstdio>

#include "app/commands/commands.h"
#include "app/stored_runs.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#if FORETRAIN_HAVE_UI
#include "app/stop_signal.h"
#include "app/views.h"
#endif

namespace foretrain {
namespace {

class ViewCommand final : public Command {
 public:
  std::string_view Name() const override { return "view"; }
  std::string_view Summary() const override {
    return "Open the desktop, or draw a view into a file";
  }

  void Declare(Arguments& arguments) override {
    arguments.Positional("store", store_, "Store with the runs; default foretrain.db");
    arguments.Option("--view", view_, "NAME", "View to show: compare");
    arguments.Option("--run", run_, "N", "Run to show; 0: the newest measured one");
    arguments.Option("--against", against_, "N", "Run to hold it against; 0: its forecast");
    arguments.Option("--step", step_, "N", "Step of the run; -1: the median one");
    arguments.Option("--window", window_, "T..T", "Stretch of the step to show, e.g. 1.2ms..1.9ms");
    arguments.Option("--screenshot", screenshot_, "FILE",
                     "Draw into this PNG; no display is needed");
    arguments.Option("--size", size_, "WxH", "Size in pixels");
    arguments.Flag("--light", light_, "Light colours");
    DeclareJson(arguments);
  }

  Result<Exit> Run() override {
    if (view_ != "compare") {
      return Fail(ErrorCode::kInvalidArgument,
                  "--view: \"" + Printable(view_) + "\" is no view; there is compare");
    }
#if FORETRAIN_HAVE_UI
    return Show();
#else
    return Fail(ErrorCode::kUnsupported,
                "this build has no desktop; `foretrain --version` says why, `foretrain compare` "
                "prints the same figures");
#endif
  }

 private:
#if FORETRAIN_HAVE_UI
  Result<ViewOptions> Options() const {
    ViewOptions options;
    const auto cross = size_.find('x');
    if (cross == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--size: \"" + Printable(size_) + "\" is not WIDTHxHEIGHT, e.g. 1600x900");
    }
    FT_ASSIGN(const std::int64_t width, ParseInt("--size", size_.substr(0, cross), 1, 16384));
    FT_ASSIGN(const std::int64_t height, ParseInt("--size", size_.substr(cross + 1), 1, 16384));
    options.width = static_cast<int>(width);
    options.height = static_cast<int>(height);
    options.light = light_;
    if (step_ >= 0) options.step = static_cast<std::int32_t>(step_);
    if (!window_.empty()) {
      const auto dots = window_.find("..");
      if (dots == std::string::npos) {
        return Fail(ErrorCode::kInvalidArgument,
                    "--window: \"" + Printable(window_) + "\" is not FROM..TO, e.g. 1.2ms..1.9ms");
      }
      FT_ASSIGN(options.window_start_s, ParseSeconds("--window", window_.substr(0, dots)));
      FT_ASSIGN(options.window_end_s, ParseSeconds("--window", window_.substr(dots + 2)));
    }
    return options;
  }

  Result<Exit> Show() {
    FT_ASSIGN(const ViewOptions options, Options());
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(std::int64_t version, reader.DataVersion());
    FT_ASSIGN(RunPair pair, LoadPair(reader, run_, against_));
    // The runs that are shown stay the same when newer ones come.
    const RunId shown = pair.measured ? pair.measured->info.id : pair.predicted->info.id;
    FT_ASSIGN(CompareInput input, CompareInputOf(reader, std::move(pair)));
    if (!screenshot_.empty()) {
      FT_TRY(ScreenshotCompare(input, options, screenshot_));
      json_ ? PrintJson() : static_cast<void>(std::printf("wrote %s\n", screenshot_.c_str()));
      return Exit::kDone;
    }
    const auto reload = [&]() -> Result<std::unique_ptr<CompareInput>> {
      FT_ASSIGN(const std::int64_t now, reader.DataVersion());
      if (now == version) return nullptr;
      version = now;
      FT_ASSIGN(RunPair newer, LoadPair(reader, shown, against_));
      FT_ASSIGN(CompareInput next, CompareInputOf(reader, std::move(newer)));
      return std::make_unique<CompareInput>(std::move(next));
    };
    const StopSignals signals;
    FT_TRY(ShowCompare(std::move(input), options, reload, [] { return StopSignal() != 0; }));
    return StopSignal() == 0 ? Exit::kDone : ExitOfSignal(StopSignal());
  }

  void PrintJson() const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("screenshot", screenshot_);
    std::puts(json.EndObject().Take().c_str());
  }
#endif

  std::string store_ = kDefaultStore;
  std::string view_ = "compare";
  std::string window_, screenshot_;
  std::string size_ = "1600x900";
  std::int64_t run_ = 0, against_ = 0, step_ = -1;
  bool light_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeView() { return std::make_unique<ViewCommand>(); }

}  // namespace foretrain
