/* A shared object that is no heuristic at all. */
int dtr_test_plugin_nothing(void);
int dtr_test_plugin_nothing(void)
{
    return 0;
}
