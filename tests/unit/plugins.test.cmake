# The plugins of test_plugin.c: good, bad and no plugins, as tests/plugins/<name>.so.
file(GLOB plugin_sources CONFIGURE_DEPENDS data/plugins/*.c)
foreach(source ${plugin_sources})
  get_filename_component(name ${source} NAME_WE)
  add_library(test_plugin_${name} MODULE ${source})
  target_include_directories(test_plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  set_target_properties(test_plugin_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} C_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/plugins)
  add_dependencies(test_plugin test_plugin_${name})
endforeach()
add_dependencies(test_plugin plugin_oldest_big)
