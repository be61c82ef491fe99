#include "ui/view_model/runs/search.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : Lower(text) + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

}  // namespace

// Linear in the spans of the step. The result is limited, so that a single letter does not fill
// memory.
std::vector<SpanRef> FindSpans(const CompareModel& model, std::string_view text) {
  const std::vector<std::string> words = WordsOf(text);
  const Side side = model.Shown();
  if (words.empty() || !model.Of(side).IsPresent()) return {};
  const RunView& run = *model.Of(side).run;
  const std::vector<Span>& spans = run.timeline.spans;
  // Each op is described once, since ops repeat on every rank.
  std::map<std::pair<OpId, OpClass>, bool> known;
  const auto matches = [&](const Span& span) {
    const std::string what = Lower(OpTitle(run, span.op) + " " + Describe(span.op, run.layers) +
                                   " " + std::string(Name(span.op_class)));
    return std::all_of(words.begin(), words.end(), [&what](const std::string& word) {
      return what.find(word) != std::string::npos;
    });
  };
  // Launches are drawn only in rows of their own.
  const bool host = model.options.rows == LaneRows::kQueues;
  std::vector<SpanRef> found;
  for (std::uint32_t i = 0; i < spans.size() && found.size() < kMaxFound; ++i) {
    if (spans[i].step != model.Of(side).step) continue;
    if (spans[i].queue == Queue::kHost && !host) continue;
    const auto [at, fresh] = known.try_emplace({spans[i].op, spans[i].op_class}, false);
    if (fresh) at->second = matches(spans[i]);
    if (at->second) found.push_back({side, i});
  }
  std::stable_sort(found.begin(), found.end(), [&spans](const SpanRef& a, const SpanRef& b) {
    return spans[a.span].start_ns < spans[b.span].start_ns;
  });
  return found;
}

// The cheap tests come first; names need a look-up.
bool OpFilter::Takes(const Timeline& timeline, const Span& span) const {
  if (!TakesKind(span)) return false;
  if (op.empty()) return true;
  if (!IsValidId(span.op)) return false;
  const auto at = timeline.op_names.find(NameKey(span.op));
  return at != timeline.op_names.end() && at->second == op;
}

bool OpFilter::TakesKind(const Span& span) const {
  if (op_class.has_value() && span.op_class != *op_class) return false;
  if (!pass.has_value()) return true;
  return IsValidId(span.op) && UnpackId(span.op).pass == *pass;
}

bool OpFilter::MayTake(Hue hue) const {
  // A filter by class alone accepts the class in every pass, so all combinations are tried.
  for (int c = 0; c < kOpClassCount; ++c) {
    for (int p = 0; p < kPassCount; ++p) {
      Span span;
      span.op_class = static_cast<OpClass>(c);
      span.op = PackId({.pass = static_cast<Pass>(p)});
      if (HueOf(span) == hue && TakesKind(span)) return true;
    }
  }
  return false;
}

}  // namespace foretrain::ui
