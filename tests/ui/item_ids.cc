// The linker sends calls of ImGui::ItemAdd here (tests/CMakeLists.txt): every widget calls it once
// a frame with its id and place.
#include "tests/ui/item_ids.h"

#include <fmt/format.h>
#include <imgui.h>

#include <unordered_map>

namespace foretrain {
namespace {

struct Place {
  float x0, y0, x1, y1;
  bool operator==(const Place&) const = default;
};

int newest_frame = -1;
std::unordered_map<ImGuiID, Place> places;  // of the newest frame's items
std::vector<std::string> equal;             // of the newest frame

void Note(const Place& place, ImGuiID id) {
  if (ImGui::GetFrameCount() != newest_frame) {
    newest_frame = ImGui::GetFrameCount();
    places.clear();
    equal.clear();
  }
  if (id == 0) return;  // a text or a picture
  const auto [at, is_new] = places.try_emplace(id, place);
  if (is_new || at->second == place) return;
  equal.push_back(fmt::format("{:08x} at {},{} and {},{}", id, at->second.x0, at->second.y0,
                              place.x0, place.y0));
}

}  // namespace

std::vector<std::string> EqualIds() { return equal; }

}  // namespace foretrain

// bool ImGui::ItemAdd(const ImRect&, ImGuiID, const ImRect*, ImGuiItemFlags)
extern "C" {
bool __real__ZN5ImGui7ItemAddERK6ImRectjPS1_i(const foretrain::Place* place, ImGuiID id,
                                              const foretrain::Place* navigation, int flags);
bool __wrap__ZN5ImGui7ItemAddERK6ImRectjPS1_i(const foretrain::Place* place, ImGuiID id,
                                              const foretrain::Place* navigation, int flags);
bool __wrap__ZN5ImGui7ItemAddERK6ImRectjPS1_i(const foretrain::Place* place, ImGuiID id,
                                              const foretrain::Place* navigation, int flags) {
  foretrain::Note(*place, id);
  return __real__ZN5ImGui7ItemAddERK6ImRectjPS1_i(place, id, navigation, flags);
}
}
